-- name: by_hour
SELECT hour, COUNT(*) AS hits FROM hits GROUP BY hour ORDER BY hour;

-- name: status_by_hour
SELECT hour, status, COUNT(*) AS hits FROM hits GROUP BY hour, status;

-- name: errors_by_day
SELECT day, COUNT(*) FILTER (WHERE status >= 500) AS errors FROM hits GROUP BY day;

-- name: traffic
SELECT section, COUNT(*) AS hits, SUM(kilobytes) AS kilobytes FROM hits GROUP BY section;

-- name: slow
SELECT section, COUNT(*) AS slow FROM hits WHERE milliseconds >= 1000 GROUP BY section;

-- name: mean_time
SELECT AVG(milliseconds) AS milliseconds FROM hits WHERE status = 200;
