-- name: stay
SELECT AVG(discharged - admitted) AS los FROM admissions WHERE discharged >= admitted;
-- name: stay_by_ward
SELECT ward, AVG(date_diff('day', admitted, discharged)) AS los FROM admissions GROUP BY ward;
-- name: readmissions
SELECT ward, COUNT(*) FILTER (WHERE readmitted) * 100.0 / COUNT(*) AS pct FROM admissions GROUP BY ward ORDER BY pct DESC LIMIT 3;
-- name: severity
SELECT severity, icu, COUNT(*) AS n FROM admissions GROUP BY severity, icu;
-- name: ages
SELECT CASE WHEN age < 18 THEN 'child' WHEN age < 65 THEN 'adult' ELSE 'senior' END AS band, AVG(severity) AS s, COUNT(*) AS n FROM admissions GROUP BY 1;
-- name: weekdays
SELECT isodow(admitted) AS d, COUNT(*) AS n FROM admissions WHERE ward = 'emergency' GROUP BY d ORDER BY d;
