-- name: pupils_by_level
SELECT
    CASE WHEN age <= 10 THEN 'primary' WHEN age <= 13 THEN 'middle' ELSE 'high' END AS level,
    COUNT(*) AS pupils
FROM people
WHERE age BETWEEN 6 AND 17
GROUP BY 1;

-- name: pupils_by_state
-- The ten states with the most children of school age.
SELECT state, COUNT(*) AS pupils
FROM people
WHERE age BETWEEN 6 AND 17
GROUP BY state
ORDER BY pupils DESC, state
LIMIT 10;

-- name: starting_school
SELECT COUNT(*) AS pupils
FROM people
WHERE age IN (5, 6) AND race IS NOT NULL;

-- name: boys_and_girls
SELECT upper(sex) AS label, COUNT(*) AS pupils
FROM people
WHERE NOT (age < 6 OR age > 17)
GROUP BY upper(sex)
ORDER BY label;
