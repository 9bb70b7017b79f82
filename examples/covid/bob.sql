-- name: most_affected_first
SELECT age_group, COUNT(*) AS deaths
FROM covid_deaths
GROUP BY age_group
ORDER BY deaths DESC, age_group;
