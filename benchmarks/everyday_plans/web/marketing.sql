-- name: countries
SELECT country, COUNT(*) AS hits FROM hits GROUP BY country ORDER BY hits DESC LIMIT 15;

-- name: country_by_section
SELECT country, section, COUNT(*) AS hits FROM hits GROUP BY country, section;

-- name: mobile_share
SELECT country, COUNT_IF(mobile) / COUNT(*) AS mobile FROM hits GROUP BY country;

-- name: campaign
SELECT day, COUNT(*) AS hits FROM hits
WHERE section = 'shop' AND day BETWEEN DATE '2024-02-01' AND DATE '2024-02-14' GROUP BY day;

-- name: running
SELECT day, SUM(COUNT(*)) OVER (ORDER BY day) AS so_far FROM hits WHERE section = 'shop' GROUP BY day;
