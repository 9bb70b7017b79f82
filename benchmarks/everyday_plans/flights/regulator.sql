-- name: cancelled
SELECT carrier, origin, COUNT(*) AS cancelled FROM flights WHERE cancelled OR diverted GROUP BY carrier, origin;

-- name: delay_bands
SELECT CASE WHEN arr_delay < 15 THEN 'on time' WHEN arr_delay < 60 THEN 'late' ELSE 'very late' END AS band,
       COUNT(*) AS flights
FROM flights WHERE arr_delay IS NOT NULL GROUP BY band;
