-- 200,000 records; half of the customers gave their age, and 3 in 100 orders are under way.
WITH drawn AS (
    SELECT random() AS a, random() AS b, random() AS c, random() AS d, random() AS e, random() AS f,
           random() AS g, random() AS h
    FROM range(200000)
)
SELECT DATE '2023-01-01' + CAST(floor(731 * pow(a, 0.8)) AS INTEGER) AS ordered,
       CAST(round(exp(7 + 1.6 * (b + c + d + e - 2) * 1.7)) AS INTEGER) AS price,
       1 + CAST(floor(0.6 * pow(-ln(1 - f), 3)) AS INTEGER) AS quantity,
       CASE WHEN g < 0.3 THEN 5 * CAST(floor(18 * pow(g / 0.3, 3)) AS INTEGER) ELSE 0 END AS discount,
       ['books', 'clothes', 'shoes', 'toys', 'kitchen', 'phones', 'games', 'food', 'health', 'sport', 'garden', 'tools',
        'computers', 'music', 'films', 'furniture', 'lighting', 'pets', 'cameras',
        'jewellery'][1 + CAST(floor(20 * pow(h, 1.4)) AS INTEGER)] AS department,
       ['DE', 'FR', 'NL', 'AT', 'CH', 'GB', 'BE', 'IT', 'ES', 'PL', 'DK', 'SE', 'CZ', 'LU',
        'US'][1 + CAST(floor(15 * pow(c, 1.8)) AS INTEGER)] AS country,
       ['web', 'app', 'store', 'phone'][1 + CAST(floor(4 * pow(d, 1.5)) AS INTEGER)] AS channel,
       CAST(floor(3 + 20 * pow(e, 3)) AS INTEGER) AS promised,
       CASE WHEN g < 0.97 THEN CAST(floor(1 + 22 * pow((e + g) / 2, 2)) AS INTEGER) END AS delivered,
       f < 0.09 AS returned,
       CASE WHEN h < 0.5 THEN CAST(16 + floor(84 * pow(a * h * 2, 0.8)) AS INTEGER) END AS customer_age
FROM drawn
