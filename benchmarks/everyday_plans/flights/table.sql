-- 336,776 records; delays have a long tail, and about one flight in 40 is cancelled.
WITH drawn AS (
    SELECT DATE '2013-01-01' + CAST(floor(365 * random()) AS INTEGER) AS day,
           CAST(5 + floor(19 * pow(random(), 0.9)) AS INTEGER) AS hour,
           1 + CAST(floor(16 * pow(random(), 1.6)) AS INTEGER) AS line,
           1 + CAST(floor(3 * random()) AS INTEGER) AS port,
           1 + CAST(floor(52 * random()) AS INTEGER) AS place,
           random() < 0.025 AS cancelled,
           CAST(round(-12 + 30 * pow(-ln(1 - random()), 1.7)) AS INTEGER) AS late,
           CAST(round(25 * (random() + random() - 1)) AS INTEGER) AS gained,
           random() AS plane
    FROM range(336776)
)
SELECT day, hour,
       ['UA', 'B6', 'EV', 'DL', 'AA', 'MQ', 'US', '9E', 'WN', 'VX', 'FL', 'AS', 'F9', 'YV', 'HA', 'OO'][line] AS carrier,
       ['EWR', 'JFK', 'LGA'][port] AS origin,
       ['ALB', 'ATL', 'AUS', 'BNA', 'BOS', 'BUF', 'BWI', 'CLE', 'CLT', 'CMH', 'CVG', 'DCA', 'DEN',
        'DFW', 'DTW', 'FLL', 'HNL', 'IAD', 'IAH', 'IND', 'JAX', 'LAS', 'LAX', 'MCI', 'MCO', 'MDW',
        'MEM', 'MIA', 'MKE', 'MSP', 'MSY', 'MYR', 'ORD', 'ORF', 'PBI', 'PDX', 'PHL', 'PHX', 'PIT',
        'PWM', 'RDU', 'RIC', 'ROC', 'RSW', 'SAN', 'SEA', 'SFO', 'SJU', 'SLC', 'STL', 'SYR', 'TPA'][place] AS dest,
       CASE WHEN NOT cancelled THEN late END AS dep_delay,
       CASE WHEN NOT cancelled THEN late + gained END AS arr_delay,
       CASE WHEN NOT cancelled THEN 3 + place END AS air_time,
       2 + place % 25 AS distance,
       cancelled,
       NOT cancelled AND plane < 0.002 AS diverted,
       CASE WHEN plane > 0.15 THEN CAST(50 + 140 * plane AS INTEGER) END AS seats,
       CASE WHEN plane > 0.99 THEN 4 WHEN plane > 0.97 THEN 3 WHEN plane > 0.02 THEN 2 ELSE 1 END AS engines,
       CASE WHEN plane > 0.15 THEN CAST(1985 + 28 * plane AS INTEGER) END AS built
FROM drawn
