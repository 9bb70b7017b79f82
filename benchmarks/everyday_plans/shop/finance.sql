-- name: revenue_by_month
SELECT date_trunc('month', ordered) AS month, SUM(price * quantity) AS revenue FROM orders GROUP BY month ORDER BY month;

-- name: revenue
SELECT COUNT(*) AS orders, SUM(price * quantity) AS revenue FROM orders;

-- name: returns
SELECT department, COUNT(*) AS orders, COUNT_IF(returned) AS returned FROM orders GROUP BY department;

-- name: pieces
SELECT department, SUM(quantity) AS pieces FROM orders GROUP BY department;
