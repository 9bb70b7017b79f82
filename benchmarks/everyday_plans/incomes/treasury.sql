-- name: gains
SELECT SUM(gain) AS gain, COUNT(*) FILTER (WHERE gain > 0) AS people FROM persons;

-- name: gains_by_age
SELECT age // 10 * 10 AS ages, AVG(gain) AS gain FROM persons GROUP BY ages;

-- name: earners
SELECT age // 10 * 10 AS ages, COUNT(*) AS people FROM persons WHERE over_50k GROUP BY ages;

-- name: median_age
SELECT over_50k, MEDIAN(age) AS age FROM persons GROUP BY over_50k;
