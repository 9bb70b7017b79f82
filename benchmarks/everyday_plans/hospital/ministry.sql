-- name: duration_by_region
SELECT region, AVG(duration) AS hours FROM stays GROUP BY region;

-- name: stays_by_region
SELECT region, COUNT(*) AS stays FROM stays GROUP BY region;

-- name: weeks
SELECT date_trunc('week', admitted) AS week, COUNT(*) AS stays FROM stays GROUP BY week ORDER BY week;

-- name: emergencies_by_month
SELECT year(admitted) AS year, month(admitted) AS month, COUNT(*) FILTER (WHERE emergency) AS emergencies
FROM stays GROUP BY year, month;

-- name: insurance
SELECT insurance, COUNT(*) AS stays, SUM(duration) AS hours FROM stays GROUP BY insurance;
