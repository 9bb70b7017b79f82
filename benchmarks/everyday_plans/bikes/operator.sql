-- name: revenue
SELECT SUM(fee) AS revenue, AVG(fee) AS mean_fee, COUNT(fee) AS paid FROM trips;
-- name: revenue_by_bike
SELECT bike, member, SUM(fee) AS revenue, COUNT(*) AS n FROM trips GROUP BY bike, member ORDER BY bike, member;
-- name: median_duration
SELECT bike, MEDIAN(duration_s) AS med, QUANTILE_CONT(duration_s, 0.9) AS p90 FROM trips GROUP BY bike;
-- name: busiest
SELECT start_station, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*) DESC) AS r FROM trips GROUP BY start_station ORDER BY r LIMIT 5;
-- name: stations_over
SELECT start_station, COUNT(*) AS n FROM trips GROUP BY start_station HAVING COUNT(*) > 5000 ORDER BY n DESC;
-- name: fee_per_minute
SELECT bike, SUM(fee) / (SUM(duration_s) / 60.0) AS per_minute FROM trips GROUP BY bike;
-- name: long_trips
SELECT COUNT(*) AS n FROM trips WHERE duration_s > 3600 AND NOT member;
-- name: running
WITH d AS (SELECT date_trunc('week', started) AS w, COUNT(*) AS n FROM trips GROUP BY 1) SELECT w, n, SUM(n) OVER (ORDER BY w) AS total FROM d ORDER BY w;
-- name: rollup
SELECT bike, member, COUNT(*) AS n FROM trips GROUP BY ROLLUP (bike, member) ORDER BY bike NULLS LAST, member NULLS LAST;
