-- name: uncoded_by_ward
SELECT
    ward,
    COUNT(*) AS stays,
    COUNT(diagnosis) AS coded,
    COUNT(*) - COUNT(diagnosis) AS uncoded
FROM stays
GROUP BY ward;

-- name: sex_recorded
SELECT coalesce(sex, 'not recorded') AS sex, COUNT(*) AS stays
FROM stays
GROUP BY 1;

-- name: stays_by_quarter
SELECT quarter(admitted) AS quarter, COUNT(*) AS stays
FROM stays
GROUP BY quarter
ORDER BY quarter;
