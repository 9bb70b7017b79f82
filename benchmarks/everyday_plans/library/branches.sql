-- name: branches
SELECT branch, COUNT(*) AS loans FROM loans GROUP BY branch;
