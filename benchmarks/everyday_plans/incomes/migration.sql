-- name: countries
SELECT country, COUNT(*) AS people FROM persons GROUP BY country ORDER BY people DESC;

-- name: abroad_by_age
SELECT age // 10 * 10 AS ages, COUNT(*) AS people FROM persons WHERE country <> 'US' GROUP BY ages;

-- name: abroad_by_education
SELECT education, COUNT(*) AS people FROM persons WHERE country <> 'US' GROUP BY education;

-- name: abroad_hours
SELECT country, AVG(hours) AS hours FROM persons GROUP BY country;
