-- name: days
SELECT kind, AVG(days) AS days FROM loans GROUP BY kind;
