-- name: sex_by_race
SELECT sex, race, COUNT(*) AS people
FROM people
GROUP BY sex, race;

-- name: screening
-- Several counts of one table in a single row.
SELECT
    COUNT(*) AS people,
    COUNT(*) FILTER (WHERE age BETWEEN 50 AND 74) AS colon,
    COUNT(*) FILTER (WHERE sex = 'female' AND age BETWEEN 50 AND 69) AS breast,
    COUNT(race) FILTER (WHERE race NOT IN ('white', 'black')) AS other_races
FROM people;

-- name: indigenous
SELECT COUNT(*) AS people
FROM people
WHERE race LIKE '%indian%' OR race LIKE 'pacific%';
