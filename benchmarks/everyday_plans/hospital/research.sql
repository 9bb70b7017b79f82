-- name: diagnoses
SELECT diagnosis, sex, COUNT(*) AS stays FROM stays GROUP BY diagnosis, sex;

-- name: diagnosis_by_age
SELECT diagnosis, age // 10 * 10 AS ages, COUNT(*) AS stays FROM stays GROUP BY diagnosis, ages;

-- name: age_and_duration
SELECT CORR(age, duration) AS correlation FROM stays;

-- name: spread
SELECT ward, STDDEV_SAMP(age) AS spread FROM stays GROUP BY ward;

-- name: emergencies_by_age
SELECT age, COUNT(*) AS stays FROM stays WHERE emergency GROUP BY age;
