-- name: time_on_page
-- Quantiles of a real column are quantiles of its bins: here, of ten seconds up to five minutes.
SELECT
    MEDIAN(LEAST(FLOOR(seconds / 10) * 10, 300)) AS half_stay,
    QUANTILE_CONT(LEAST(FLOOR(seconds / 10) * 10, 300), 0.9) AS a_tenth_stays
FROM views;

-- name: glances
SELECT page, COUNT(*) AS views, COUNT(*) FILTER (WHERE seconds < 5) AS glances
FROM views
GROUP BY page;

-- name: devices
SELECT device, COUNT(*) AS views
FROM views
GROUP BY device;
