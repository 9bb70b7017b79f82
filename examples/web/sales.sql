-- name: funnel
-- Ratios of counts are worked out from released counts.
SELECT
    COUNT(*) FILTER (WHERE page = 'product') AS products,
    COUNT(*) FILTER (WHERE page = 'basket') AS baskets,
    COUNT(*) FILTER (WHERE page = 'checkout') AS checkouts,
    round(100.0 * COUNT(*) FILTER (WHERE page = 'checkout')
        / COUNT(*) FILTER (WHERE page = 'product'), 1) AS percent
FROM views;

-- name: devices
SELECT device, COUNT(*) AS views
FROM views
GROUP BY device;
