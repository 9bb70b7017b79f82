-- name: sizes
-- A real column is cut where statements cut it: these bins double.
SELECT
    CASE
        WHEN kilobytes < 250 THEN 'below 250'
        WHEN kilobytes < 500 THEN '250 to 500'
        WHEN kilobytes < 1000 THEN '500 to 1000'
        WHEN kilobytes < 2000 THEN '1000 to 2000'
        ELSE '2000 and more'
    END AS size,
    COUNT(*) AS views
FROM views
GROUP BY size;

-- name: heavy_pages
SELECT page, COUNT(*) AS views
FROM views
WHERE kilobytes >= 1000
GROUP BY page
ORDER BY views DESC, page
LIMIT 3;

-- name: views_by_hour
SELECT hour, COUNT(*) AS views
FROM views
GROUP BY hour
ORDER BY hour;
