-- name: decades
SELECT age // 10 * 10 AS decade, sex, COUNT(*) AS n FROM admissions GROUP BY 1, 2 ORDER BY 1, 2;
-- name: age_and_cost
SELECT CORR(age, cost) AS r FROM admissions;
-- name: slope
SELECT REGR_SLOPE(cost, age) AS slope FROM admissions;
-- name: spread
SELECT ward, STDDEV(age) AS sd FROM admissions GROUP BY ward;
-- name: median_age
SELECT QUANTILE_CONT(age, 0.5) AS med FROM admissions WHERE ward = 'cardiology' AND severity >= 4;
-- name: impossible
SELECT COUNT(*) AS n FROM admissions WHERE discharged < admitted;
-- name: large_wards
SELECT ward, COUNT(*) AS n FROM admissions GROUP BY ward HAVING COUNT(*) > 100000;
