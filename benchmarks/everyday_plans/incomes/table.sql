-- 48,842 records; some work classes, occupations and countries are not known.
WITH drawn AS (
    SELECT random() AS a, random() AS b, random() AS c, random() AS d, random() AS e, random() AS f,
           random() AS g, random() AS h, random() AS i, random() AS j, random() AS k
    FROM range(48842)
)
SELECT 17 + CAST(floor(73 * pow(a, 1.5)) AS INTEGER) AS age,
       CASE WHEN b < 0.94 THEN ['private', 'private', 'private', 'private', 'self-employed', 'own company', 'federal',
            'state', 'local', 'unpaid'][1 + CAST(floor(10 * c) AS INTEGER)] END AS workclass,
       ['none', 'grade 4', 'grade 6', 'grade 8', 'grade 9', 'grade 10', 'grade 11', 'grade 12', 'doctorate',
        'professional', 'vocational', 'associate', 'master', 'bachelor', 'some college',
        'high school'][1 + CAST(floor(16 * pow(d, 0.5)) AS INTEGER)] AS education,
       ['married', 'never', 'divorced', 'separated', 'widowed', 'absent',
        'armed forces'][1 + CAST(floor(7 * pow(e, 2)) AS INTEGER)] AS marital,
       CASE WHEN b < 0.94 THEN ['technical', 'craft', 'service', 'sales', 'executive', 'specialty', 'handler', 'machines',
            'clerical', 'farming', 'transport', 'household', 'protective',
            'military'][1 + CAST(floor(14 * f) AS INTEGER)] END AS occupation,
       ['husband', 'not in family', 'child', 'unmarried', 'wife',
        'other relative'][1 + CAST(floor(6 * pow(g, 1.5)) AS INTEGER)] AS relationship,
       ['white', 'black', 'asian', 'indigenous', 'other'][1 + CAST(floor(5 * pow(h, 4)) AS INTEGER)] AS race,
       CASE WHEN i < 0.67 THEN 'male' ELSE 'female' END AS sex,
       CASE WHEN j < 0.45 THEN 40 ELSE 1 + CAST(floor(99 * (j + k) / 2) AS INTEGER) END AS hours,
       CASE WHEN k < 0.98 THEN ['US', 'MX', 'PH', 'DE', 'CA', 'PR', 'SV', 'IN', 'CU', 'GB', 'JM', 'KR', 'CN', 'IT', 'DO',
            'VN', 'GT', 'JP', 'PL', 'CO'][1 + CAST(floor(20 * pow(k, 9)) AS INTEGER)] END AS country,
       CASE WHEN f < 0.08 THEN CAST(floor(999 * pow(g, 3)) AS INTEGER) ELSE 0 END AS gain,
       a * d + 0.2 * j > 0.55 AS over_50k
FROM drawn
