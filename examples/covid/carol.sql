-- name: all_deaths
SELECT COUNT(*) AS deaths
FROM covid_deaths;
