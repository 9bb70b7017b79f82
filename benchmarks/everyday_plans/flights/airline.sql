-- name: delay_by_carrier
SELECT carrier, AVG(dep_delay) AS mean_delay FROM flights GROUP BY carrier ORDER BY mean_delay DESC;

-- name: traffic
SELECT carrier, COUNT(*) AS flights, SUM(distance) AS distance, SUM(air_time) AS air_time
FROM flights GROUP BY carrier;

-- name: fleet
SELECT engines, COUNT(*) AS flights, AVG(built) AS built FROM flights WHERE built IS NOT NULL GROUP BY engines;
