-- 20,000 records.
SELECT ['north', 'east', 'south', 'west', 'centre', 'harbour', 'airport', 'abroad'][1 + CAST(floor(8 * random()) AS INTEGER)] AS site,
       1 + CAST(floor(15 * pow(random(), 2)) AS INTEGER) AS grade,
       CAST(floor(1800 + 4000 * pow(random(), 2)) AS INTEGER) AS wage
FROM range(20000)
