-- name: months
SELECT month(day) AS month, COUNT(*) AS flights, COUNT_IF(cancelled) AS cancelled FROM flights GROUP BY month ORDER BY month;

-- name: top_destinations
SELECT dest, COUNT(*) AS flights FROM flights GROUP BY dest ORDER BY flights DESC LIMIT 10;

-- name: weekdays
SELECT dayname(day) AS weekday, COUNT(*) AS late FROM flights WHERE dep_delay > 60 GROUP BY weekday;
