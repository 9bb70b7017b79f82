-- name: ebooks
SELECT month(lent) AS month, COUNT(*) FILTER (WHERE kind = 'e-book') AS loans FROM loans GROUP BY month;
