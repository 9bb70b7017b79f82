-- 500,000 records; the country of some and the browser of others is not known.
WITH drawn AS (
    SELECT random() AS a, random() AS b, random() AS c, random() AS d, random() AS e, random() AS f,
           random() AS g, random() AS h
    FROM range(500000)
)
SELECT DATE '2024-01-01' + CAST(floor(91 * a) AS INTEGER) AS day,
       CAST(floor(24 * pow(b, 0.7)) AS INTEGER) AS hour,
       ['home', 'news', 'static', 'sport', 'api', 'video', 'live', 'search', 'culture', 'weather', 'opinion', 'science',
        'travel', 'food', 'login', 'account', 'archive', 'shop', 'jobs', 'games'][1 + CAST(floor(20 * pow(c, 2)) AS INTEGER)] AS section,
       CASE WHEN d < 0.9 THEN 'GET' WHEN d < 0.97 THEN 'POST' WHEN d < 0.99 THEN 'HEAD' ELSE 'PUT' END AS method,
       [200, 304, 404, 301, 302, 206, 204, 403, 500, 401, 503, 201, 400, 429, 410, 405, 502,
        504][1 + CAST(floor(18 * pow(e, 6)) AS INTEGER)] AS status,
       CASE WHEN f < 0.97 THEN ['US', 'DE', 'GB', 'FR', 'IN', 'CA', 'NL', 'AU', 'ES', 'IT', 'BR', 'JP', 'CH', 'AT', 'SE', 'PL',
            'BE', 'DK', 'NO', 'FI', 'IE', 'MX', 'ZA', 'SG', 'NZ', 'PT'][1 + CAST(floor(26 * pow(f, 3)) AS INTEGER)] END AS country,
       CASE WHEN g < 0.95 THEN ['chrome', 'safari', 'edge', 'firefox', 'samsung', 'bot', 'opera',
            'other'][1 + CAST(floor(8 * pow(g, 2)) AS INTEGER)] END AS browser,
       h < 0.6 AS mobile,
       CAST(floor(40 * pow(-ln(1 - d), 3)) AS INTEGER) AS kilobytes,
       CAST(floor(80 * pow(-ln(1 - h), 2)) AS INTEGER) AS milliseconds
FROM drawn
