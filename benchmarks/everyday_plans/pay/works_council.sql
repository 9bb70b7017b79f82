-- name: wages
SELECT site, AVG(wage) AS wage FROM employees GROUP BY site;
