-- name: quartiles
SELECT QUANTILE_CONT(price, [0.25, 0.5, 0.75]) AS prices FROM orders;

-- name: quantity_by_department
SELECT department, VAR_SAMP(quantity) AS spread FROM orders GROUP BY department;

-- name: discounts
SELECT discount > 0 AS reduced, department, COUNT(*) AS orders FROM orders GROUP BY reduced, department;

-- name: mean_discount
SELECT department, AVG(discount) AS discount FROM orders GROUP BY department;

-- name: dear
SELECT department, COUNT(*) AS orders FROM orders WHERE price >= 100000 GROUP BY department;
