-- name: large_states
-- HAVING looks at released answers only, so it costs nothing.
SELECT state, COUNT(*) AS people
FROM people
GROUP BY state
HAVING COUNT(*) > 800
ORDER BY people DESC, state;

-- name: west_coast_commuters
SELECT state, COUNT(*) AS people
FROM people
WHERE state IN ('CA', 'OR', 'WA') AND age > 17 AND age <= 64
GROUP BY state;

-- name: reduced_fares
SELECT
    COUNT(*) FILTER (WHERE age < 12) AS children,
    COUNT(*) FILTER (WHERE age >= 65) AS seniors
FROM people;
