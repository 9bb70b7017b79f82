-- name: late
SELECT COUNT(*) AS late FROM orders WHERE promised < delivered;

-- name: late_by_country
SELECT country, COUNT(*) FILTER (WHERE promised < delivered) / COUNT(*) AS late FROM orders
WHERE delivered IS NOT NULL GROUP BY country;

-- name: days
SELECT country, AVG(delivered) AS days FROM orders GROUP BY country;

-- name: under_way
SELECT COUNT(*) AS orders FROM orders WHERE delivered IS NULL;

-- name: weekdays
SELECT dayname(ordered) AS weekday, COUNT(*) AS orders, SUM(quantity) AS pieces FROM orders GROUP BY weekday;
