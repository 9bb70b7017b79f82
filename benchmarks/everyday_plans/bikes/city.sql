-- name: all_trips
SELECT COUNT(*) AS trips FROM trips;
-- name: by_month
SELECT date_trunc('month', started) AS month, COUNT(*) AS trips, SUM(duration_s)/3600.0 AS hours FROM trips GROUP BY 1 ORDER BY 1;
-- name: by_hour
SELECT EXTRACT(hour FROM started) AS h, COUNT(*) AS trips FROM trips GROUP BY h ORDER BY h;
-- name: by_weekday
SELECT dayofweek(started) AS dow, member, COUNT(*) AS trips FROM trips GROUP BY ALL ORDER BY ALL;
-- name: od
SELECT start_station, end_station, COUNT(*) AS trips FROM trips GROUP BY start_station, end_station ORDER BY trips DESC LIMIT 20;
-- name: round_trips
SELECT COUNT(*) FILTER (WHERE start_station = end_station) AS round, COUNT(*) AS n, 100.0 * COUNT(*) FILTER (WHERE start_station = end_station) / COUNT(*) AS pct FROM trips;
-- name: commuters
SELECT CASE WHEN EXTRACT(hour FROM started) BETWEEN 7 AND 9 THEN 'morning' WHEN EXTRACT(hour FROM started) BETWEEN 16 AND 18 THEN 'evening' ELSE 'other' END AS part, COUNT(*) AS trips FROM trips WHERE dayofweek(started) BETWEEN 1 AND 5 GROUP BY part;
-- name: summer
SELECT COUNT(*) AS n FROM trips WHERE started >= '2024-06-01' AND started < '2024-09-01';
