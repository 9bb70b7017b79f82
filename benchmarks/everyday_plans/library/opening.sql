-- name: weekdays
SELECT branch, isodow(lent) AS weekday, COUNT(*) AS loans FROM loans GROUP BY branch, weekday;
