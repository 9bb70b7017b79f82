-- name: by_insurance
SELECT insurance, ward, COUNT(*) AS stays FROM stays GROUP BY insurance, ward;

-- name: age_by_insurance
SELECT insurance, AVG(age) AS age FROM stays GROUP BY insurance;

-- name: children
SELECT sex, COUNT(*) AS stays FROM stays WHERE age < 18 AND insurance = 'public' GROUP BY sex;

-- name: night_or_more
SELECT duration >= 24 AS overnight, COUNT(*) AS stays FROM stays GROUP BY overnight;
