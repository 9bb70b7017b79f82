-- name: by_hour
SELECT origin, hour, COUNT(*) AS flights FROM flights GROUP BY origin, hour;

-- name: on_time
SELECT origin, COUNT(*) FILTER (WHERE arr_delay <= 15) / COUNT(*) AS on_time
FROM flights WHERE NOT cancelled GROUP BY origin;

-- name: seats
SELECT origin, SUM(seats) AS seats FROM flights WHERE NOT cancelled GROUP BY origin;
