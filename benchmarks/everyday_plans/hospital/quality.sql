-- name: median_age
SELECT ward, MEDIAN(age) AS age FROM stays GROUP BY ward;

-- name: median_duration
SELECT MEDIAN(duration) AS hours FROM stays;

-- name: readmitted
SELECT ward, COUNT_IF(readmitted) / COUNT(*) AS readmitted FROM stays GROUP BY ward;

-- name: readmitted_by_age
SELECT age // 10 * 10 AS ages, COUNT(*) AS stays, COUNT_IF(readmitted) AS readmitted FROM stays GROUP BY ages;

-- name: long_stays
SELECT ward, COUNT(*) AS stays FROM stays WHERE duration > 14 * 24 GROUP BY ward;
