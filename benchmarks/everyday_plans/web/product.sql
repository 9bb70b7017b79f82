-- name: browsers
SELECT browser, mobile, COUNT(*) AS hits FROM hits GROUP BY ROLLUP (browser, mobile);

-- name: times
SELECT CASE WHEN milliseconds < 100 THEN 'fast' WHEN milliseconds < 1000 THEN 'fair' ELSE 'slow' END AS speed,
       browser, COUNT(*) AS hits
FROM hits GROUP BY speed, browser;

-- name: bytes_by_device
SELECT mobile, SUM(kilobytes) AS kilobytes FROM hits GROUP BY mobile;

-- name: typical_time
SELECT QUANTILE_CONT(milliseconds, 0.95) AS milliseconds FROM hits;
