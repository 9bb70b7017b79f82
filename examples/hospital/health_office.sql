-- name: diagnoses_by_quarter
-- Stays that are not coded yet are a group of their own: NULL.
SELECT quarter(admitted) AS quarter, diagnosis, COUNT(*) AS stays
FROM stays
GROUP BY quarter, diagnosis
ORDER BY quarter, diagnosis NULLS LAST;

-- name: diagnoses_of_children
SELECT diagnosis, COUNT(*) AS stays
FROM stays
WHERE age < 18 AND diagnosis IS NOT NULL
GROUP BY diagnosis;

-- name: winter_lungs
SELECT COUNT(*) AS stays
FROM stays
WHERE diagnosis = 'lung' AND (admitted < DATE '2023-03-21' OR admitted >= DATE '2023-12-21');
