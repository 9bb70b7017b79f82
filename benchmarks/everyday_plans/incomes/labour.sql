-- name: by_workclass
SELECT workclass, COUNT(*) AS people FROM persons GROUP BY workclass;

-- name: hours_by_occupation
SELECT occupation, AVG(hours) AS hours FROM persons GROUP BY occupation;

-- name: long_weeks
SELECT occupation, COUNT(*) FILTER (WHERE hours > 48) AS long_weeks FROM persons GROUP BY occupation;

-- name: part_time
SELECT sex, COUNT(*) FILTER (WHERE hours < 35) / COUNT(*) AS part_time FROM persons GROUP BY sex;

-- name: hours_worked
SELECT workclass, SUM(hours) AS hours, COUNT(*) AS people FROM persons GROUP BY workclass;
