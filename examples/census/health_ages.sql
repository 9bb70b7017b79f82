-- name: people_by_age
SELECT age, COUNT(*) AS people
FROM people
GROUP BY age
ORDER BY age;

-- name: care_bands
-- Bands of unequal width, made by an expression that the GROUP BY names by its alias.
SELECT
    CASE
        WHEN age < 18 THEN 'child'
        WHEN age < 65 THEN 'adult'
        WHEN age < 80 THEN 'senior'
        ELSE 'frail'
    END AS band,
    sex,
    COUNT(*) AS people
FROM people
GROUP BY band, sex;

-- name: may_retire
-- The age that matters depends on another column.
SELECT COUNT(*) AS people
FROM people
WHERE age >= CASE WHEN sex = 'female' THEN 63 ELSE 65 END;
