-- name: stops
SELECT isodow(lent) AS weekday, COUNT(*) AS loans FROM loans WHERE branch = 'bus' GROUP BY weekday;
