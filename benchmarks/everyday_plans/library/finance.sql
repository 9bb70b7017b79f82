-- name: overdue
SELECT branch, COUNT(*) AS overdue FROM loans WHERE days > 28 OR days IS NULL GROUP BY branch;
