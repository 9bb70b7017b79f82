-- name: ages
SELECT customer_age // 10 * 10 AS ages, COUNT(*) AS orders FROM orders GROUP BY ages;

-- name: age_by_channel
SELECT channel, AVG(customer_age) AS age, COUNT(customer_age) AS known FROM orders GROUP BY channel;

-- name: young
SELECT department, COUNT(*) AS orders FROM orders WHERE customer_age < 30 GROUP BY department;

-- name: christmas
SELECT year(ordered) AS year, COUNT(*) AS orders FROM orders WHERE month(ordered) = 12 GROUP BY year;
