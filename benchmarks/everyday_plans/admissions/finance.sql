-- name: by_ward
SELECT ward, COUNT(*) AS n, SUM(cost) AS cost, AVG(cost) AS mean FROM admissions GROUP BY ward ORDER BY cost DESC;
-- name: by_insurer
SELECT insurer, SUM(cost) AS cost FROM admissions GROUP BY insurer;
-- name: by_month
SELECT date_trunc('month', admitted) AS m, SUM(cost) AS cost, COUNT(*) AS n FROM admissions GROUP BY m ORDER BY m;
-- name: median_by_ward
SELECT ward, MEDIAN(cost) AS med FROM admissions GROUP BY ward;
-- name: expensive
SELECT COUNT(*) FILTER (WHERE cost > 50000) AS expensive, COUNT(*) AS n FROM admissions;
-- name: quarters
SELECT quarter(admitted) AS q, ward, SUM(cost) AS cost FROM admissions GROUP BY ROLLUP (q, ward);
