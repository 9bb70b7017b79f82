-- name: bands
SELECT age // 10 * 10 AS ages, kind, COUNT(*) AS loans FROM loans GROUP BY ages, kind;
