-- name: age_bands
SELECT CASE WHEN 2024 - birth_year < 18 THEN 'minor' WHEN 2024 - birth_year < 30 THEN '18-29' WHEN 2024 - birth_year < 50 THEN '30-49' WHEN birth_year IS NULL THEN 'unknown' ELSE '50+' END AS band, COUNT(*) AS n, AVG(duration_s) AS mean_s FROM trips GROUP BY band ORDER BY band;
-- name: age_duration
SELECT CORR(birth_year, duration_s) AS r FROM trips;
-- name: spread
SELECT member, STDDEV(duration_s) AS sd, AVG(duration_s) AS m FROM trips GROUP BY member;
-- name: electric_share
SELECT date_trunc('quarter', started) AS q, SUM(CASE WHEN bike = 'electric' THEN 1 ELSE 0 END) * 1.0 / COUNT(*) AS share FROM trips GROUP BY q ORDER BY q;
-- name: log_duration
SELECT AVG(LN(duration_s)) AS log_mean FROM trips;
-- name: impossible
SELECT COUNT(*) AS n FROM trips WHERE birth_year > 2010;
-- name: unknown_end
SELECT COUNT(*) AS lost FROM trips WHERE end_station IS NULL;
-- name: weekend_vs_week
SELECT 'weekend' AS k, COUNT(*) AS n FROM trips WHERE dayofweek(started) IN (0, 6) UNION ALL SELECT 'week', COUNT(*) FROM trips WHERE dayofweek(started) NOT IN (0, 6);
