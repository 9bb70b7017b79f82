-- name: ages
SELECT age, COUNT(*) AS loans FROM loans WHERE age < 14 GROUP BY age;
