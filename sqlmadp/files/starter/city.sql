-- name: visits_by_week
SELECT date_trunc('week', day) AS week, COUNT(*) AS visits
FROM visits
GROUP BY week
ORDER BY week;

-- name: visits_by_ward
SELECT ward, COUNT(*) AS visits
FROM visits
GROUP BY ward;

-- name: visits_by_age
SELECT age // 20 * 20 AS from_age, COUNT(*) AS visits
FROM visits
GROUP BY from_age
ORDER BY from_age;
