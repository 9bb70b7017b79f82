-- 80,000 records; 2 in 100 have not come back.
WITH drawn AS (
    SELECT random() AS a, random() AS b, random() AS c, random() AS d, random() AS e, random() AS f FROM range(80000)
)
SELECT DATE '2024-01-01' + CAST(floor(366 * a) AS INTEGER) AS lent,
       ['central', 'university', 'north', 'east', 'south', 'west', 'harbour', 'bus',
        'hospital'][1 + CAST(floor(9 * pow(b, 1.7)) AS INTEGER)] AS branch,
       ['novel', 'children', 'non-fiction', 'e-book', 'film', 'comic', 'music', 'game',
        'magazine'][1 + CAST(floor(9 * pow(c, 1.3)) AS INTEGER)] AS kind,
       CASE WHEN d < 0.99 THEN ['de', 'en', 'fr', 'es', 'it', 'tr', 'ar', 'ru', 'uk', 'pl',
            'other'][1 + CAST(floor(11 * pow(d, 4)) AS INTEGER)] END AS language,
       4 + CAST(floor(90 * pow(e, 1.4)) AS INTEGER) AS age,
       CASE WHEN f < 0.98 THEN CAST(floor(35 * pow(f + 0.3 * e, 1.5)) AS INTEGER) END AS days,
       CAST(floor(6 * pow(f, 5)) AS INTEGER) AS renewed,
       c < 0.15 AS reserved
FROM drawn
