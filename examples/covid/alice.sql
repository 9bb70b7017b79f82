-- name: deaths_by_age
SELECT age_group, COUNT(*) AS deaths
FROM covid_deaths
GROUP BY age_group;
