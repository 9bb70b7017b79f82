SELECT i AS case_no, CAST(floor(random() * 25000) AS INTEGER) AS patient,
 DATE '2023-01-01' + CAST(floor(random() * 365) AS INTEGER) AS admitted,
 DATE '2023-01-01' + CAST(floor(random() * 390) AS INTEGER) AS discharged,
 CASE WHEN random() < 0.02 THEN NULL ELSE ['cardiology', 'surgery', 'oncology', 'paediatrics', 'maternity', 'orthopaedics', 'neurology', 'emergency', 'day clinic'][1 + CAST(floor(9 * pow(random(), 1.3)) AS INTEGER)] END AS ward,
 CAST(floor(115 * pow(random(), 0.8)) AS INTEGER) AS age,
 CASE WHEN random() < 0.05 THEN NULL WHEN random() < 0.5 THEN 'f' ELSE 'm' END AS sex,
 ['public', 'private', 'none', 'unknown'][1 + CAST(floor(4 * pow(random(), 2)) AS INTEGER)] AS insurer,
 CASE WHEN random() < 0.03 THEN NULL ELSE CAST(round(-ln(random()) * 3000, 2) AS DECIMAL(9, 2)) END AS cost,
 random() < 0.08 AS icu, CASE WHEN random() < 0.1 THEN NULL ELSE random() < 0.15 END AS readmitted,
 1 + CAST(floor(5 * random()) AS INTEGER) AS severity
FROM range(60000) AS t(i)
