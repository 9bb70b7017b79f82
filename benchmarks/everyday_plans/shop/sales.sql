-- name: countries
SELECT country, COUNT(*) AS orders, AVG(price) AS price FROM orders GROUP BY country;

-- name: bulk
SELECT department, COUNT(*) FILTER (WHERE quantity >= 50) AS bulk_orders, SUM(quantity) AS pieces, SUM(price) AS prices
FROM orders GROUP BY department;

-- name: price_and_quantity
SELECT CORR(price, quantity) AS correlation FROM orders;

-- name: channels_by_month
SELECT channel, month(ordered) AS month, COUNT(*) AS orders FROM orders GROUP BY channel, month;

-- name: running
SELECT ordered, COUNT(*) AS orders, SUM(COUNT(*)) OVER (ORDER BY ordered) AS so_far FROM orders GROUP BY ordered;
