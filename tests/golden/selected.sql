-- Each statement is followed by what it counts: a line for each group and count, with the
-- group's keys and then the cells, as products of merged values.  The domain is in
-- tests/bind/test_golden.py.

SELECT COUNT(*) FROM people;
-- () __a0: everything

SELECT COUNT(*) AS adults FROM people WHERE age >= 3;
-- () __a0: age=3|4|5

SELECT COUNT(*) FROM people WHERE age >= 3 AND sex = 'm';
-- () __a0: age=3|4|5 sex=m

SELECT COUNT(*) FROM people WHERE age >= 4 OR sex = 'm';
-- () __a0: age=0|1|2|3|NULL sex=m + age=4|5 sex=f|NULL + age=4|5 sex=m

SELECT COUNT(*) FROM people WHERE NOT (age >= 3 OR sex = 'm');
-- () __a0: age=0|1|2 sex=f

SELECT COUNT(*) FROM people WHERE sex <> 'm';
-- () __a0: sex=f

SELECT COUNT(sex), COUNT(*) FILTER (WHERE member), COUNT_IF(age = 0) FROM people;
-- () __a0: sex=m|f
-- () __a1: member=True
-- () __a2: age=0

SELECT sex, COUNT(*) FROM people GROUP BY sex ORDER BY 2 DESC;
-- (m) __a0: sex=m
-- (f) __a0: sex=f
-- (None) __a0: sex=NULL

SELECT member, sex, COUNT(*) FROM people WHERE sex = 'f' GROUP BY sex, member;
-- (f, false) __a0: member=False sex=f
-- (f, true) __a0: member=True sex=f

SELECT age // 2 AS half, COUNT(*) FROM people WHERE half > 0 GROUP BY half;
-- (1) __a0: age=2|3
-- (2) __a0: age=4|5

SELECT CASE WHEN income < 1000 THEN 'low' WHEN income >= 1000 THEN 'high' END AS class, COUNT(*)
FROM people GROUP BY ALL;
-- (low) __a0: income=0.0|between 0.0 and 1000.0
-- (high) __a0: income=1000.0|between 1000.0 and 5000.0|5000.0
-- (None) __a0: income=NULL

SELECT COUNT(*) FROM people WHERE income BETWEEN 1000 AND 2 * 1000;
-- () __a0: income=1000.0|between 1000.0 and 2000.0|2000.0

SELECT COUNT(*) FROM people AS p WHERE p.age = length(p.sex) + 3;
-- () __a0: age=4 sex=m|f

SELECT COUNT(*) FROM people WHERE 1 = 2;
-- () __a0: nothing

SELECT sex, COUNT(*) FROM people WHERE age > 5 GROUP BY sex;
-- no group

SELECT sex, COUNT(*) FILTER (WHERE age = 0 AND sex = 'm') FROM people GROUP BY sex;
-- (m) __a0: age=0 sex=m
-- (f) __a0: nothing
-- (None) __a0: nothing
