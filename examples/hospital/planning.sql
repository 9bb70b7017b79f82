-- name: stays_by_month
SELECT month(admitted) AS month, COUNT(*) AS stays
FROM stays
GROUP BY month
ORDER BY month;

-- name: weekends_by_ward
SELECT ward, isodow(admitted) >= 6 AS weekend, COUNT(*) AS stays
FROM stays
GROUP BY ward, weekend;

-- name: busiest_ward
-- A window function runs over released counts, so the rank costs nothing.
SELECT ward, COUNT(*) AS stays, rank() OVER (ORDER BY COUNT(*) DESC) AS place
FROM stays
GROUP BY ward;
