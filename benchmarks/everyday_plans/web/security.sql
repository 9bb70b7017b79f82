-- name: refused
SELECT status, COUNT(*) AS hits FROM hits WHERE status IN (401, 403, 429) GROUP BY status;

-- name: logins
SELECT hour, COUNT(*) AS hits FROM hits WHERE section = 'login' AND method = 'POST' GROUP BY hour;

-- name: status_by_method
SELECT method, status, COUNT(*) AS hits FROM hits GROUP BY method, status;

-- name: unusual
SELECT country, COUNT(*) AS hits FROM hits WHERE method IN ('PUT', 'DELETE') GROUP BY country;

-- name: bots
SELECT section, COUNT(*) AS hits FROM hits WHERE browser = 'bot' OR browser IS NULL GROUP BY section;
