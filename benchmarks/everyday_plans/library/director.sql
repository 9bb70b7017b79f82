-- name: months
SELECT month(lent) AS month, branch, COUNT(*) AS loans FROM loans GROUP BY month, branch;
