-- name: sections
SELECT section, COUNT(*) AS hits FROM hits WHERE status = 200 AND method = 'GET' GROUP BY section;

-- name: section_by_hour
SELECT section, hour, COUNT(*) AS hits FROM hits GROUP BY section, hour;

-- name: weekends
SELECT isodow(day) >= 6 AS weekend, section, COUNT(*) AS hits FROM hits GROUP BY weekend, section;

-- name: months
SELECT monthname(day) AS month, COUNT(*) AS hits FROM hits GROUP BY month;

-- name: live_at_night
SELECT COUNT(*) AS hits FROM hits WHERE section = 'live' AND (hour >= 22 OR hour < 6);
