-- name: income_by_sex
SELECT sex, over_50k, COUNT(*) AS people FROM persons GROUP BY sex, over_50k;

-- name: income_by_race
SELECT race, over_50k, COUNT(*) AS people FROM persons GROUP BY race, over_50k;

-- name: income_by_race_and_sex
SELECT race, sex, COUNT_IF(over_50k) / COUNT(*) AS over_50k FROM persons GROUP BY race, sex;

-- name: executives
SELECT sex, COUNT(*) AS people FROM persons WHERE occupation = 'executive' GROUP BY sex;

-- name: families
SELECT relationship, sex, COUNT(*) AS people FROM persons GROUP BY ROLLUP (relationship, sex);
