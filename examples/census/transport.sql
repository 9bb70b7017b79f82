-- name: decades
-- Arithmetic in the GROUP BY: ten bands of ten years.
SELECT age // 10 * 10 AS decade, COUNT(*) AS people
FROM people
GROUP BY age // 10 * 10
ORDER BY decade;

-- name: drivers_by_state
SELECT state, COUNT(*) AS people, COUNT(*) FILTER (WHERE age >= 16) AS of_driving_age
FROM people
GROUP BY state
ORDER BY state;
