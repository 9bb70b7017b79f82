-- name: degrees
SELECT education, COUNT(*) AS people FROM persons GROUP BY education;

-- name: degrees_by_sex
SELECT education, sex, COUNT(*) AS people FROM persons GROUP BY education, sex;

-- name: pays_off
SELECT education, COUNT_IF(over_50k) / COUNT(*) AS over_50k FROM persons GROUP BY education ORDER BY over_50k DESC;

-- name: young_without
SELECT COUNT(*) AS people FROM persons
WHERE age < 25 AND education NOT IN ('high school', 'some college', 'associate', 'vocational', 'bachelor');
