-- 120,000 records; the region or the insurance of some is not known.
WITH drawn AS (
    SELECT random() AS a, random() AS b, random() AS c, random() AS d, random() AS e, random() AS f,
           random() AS g, random() AS h
    FROM range(120000)
)
SELECT DATE '2022-01-01' + CAST(floor(730 * a) AS INTEGER) AS admitted,
       ['medicine', 'surgery', 'day clinic', 'children', 'maternity', 'cardiology', 'orthopaedics', 'neurology',
        'oncology', 'urology', 'psychiatry', 'intensive care'][1 + CAST(floor(12 * pow(b, 1.4)) AS INTEGER)] AS ward,
       CASE WHEN c < 0.98 THEN 1 + CAST(floor(200 * pow(c, 1.5)) AS INTEGER) END AS region,
       CAST(floor(105 * pow(d, 0.7)) AS INTEGER) AS age,
       CASE WHEN e < 0.52 THEN 'female' WHEN e < 0.998 THEN 'male' ELSE 'other' END AS sex,
       CAST(floor(4 + 90 * pow(-ln(1 - f), 1.5)) AS INTEGER) AS duration,
       substr('ABCDEFGHIJKLMNOPQRSTVWXYZ', 1 + CAST(floor(25 * pow(g, 1.2)) AS INTEGER), 1) AS diagnosis,
       g + h < 0.8 AS emergency,
       CASE WHEN h < 0.96 THEN ['public', 'private', 'accident', 'abroad'][1 + CAST(floor(4 * pow(h, 5)) AS INTEGER)] END AS insurance,
       d * f > 0.7 AS readmitted
FROM drawn
