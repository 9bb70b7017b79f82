-- name: ages
SELECT age, COUNT(*) AS people FROM persons GROUP BY age;

-- name: pyramid
SELECT sex, age // 5 * 5 AS ages, COUNT(*) AS people FROM persons GROUP BY sex, ages;

-- name: marital_by_sex
SELECT marital, sex, COUNT(*) AS people FROM persons GROUP BY marital, sex;

-- name: pensioners
SELECT COUNT(*) AS people FROM persons WHERE age >= 65;
