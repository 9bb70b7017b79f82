-- Each statement is followed by why it is refused: line:column, code, message.

SELECT MAX(age) FROM people;
-- 1:8 min-max: MAX(age) depends on a single record, so no noise can hide it

SELECT SUM(age), COUNT(DISTINCT sex) FROM people;
-- 1:18 count-distinct: COUNT of DISTINCT values is not supported: one record can change it or not, depending on all others

SELECT * FROM people;
-- 1:8 rows: this would return rows of individuals

SELECT age, sex FROM people WHERE age > 3;
-- 1:8 rows: this would return rows of individuals

SELECT COUNT(*) FROM persons;
-- 1:22 unknown-table: there is no table 'persons'

SELECT COUNT(*) FROM people WHERE agee > 3 AND sexx = 'm' AND member = "yes";
-- 1:35 unknown-column: the schema does not declare a column 'agee'
-- 1:48 unknown-column: the schema does not declare a column 'sexx'
-- 1:72 unknown-column: the schema does not declare a column 'yes'

SELECT COUNT(*) FROM people WHERE random() < 0.5;
-- 1:35 nondeterministic: random does not give the same value every time

SELECT COUNT(*) FROM people WHERE DATE '2020-01-01' < current_date;
-- 1:55 nondeterministic: current_date does not give the same value every time

SELECT COUNT(*) FROM people WHERE age = (SELECT 1);
-- 1:41 private-subquery: a condition on records cannot depend on the answer of another query: what is counted must be known before anything is measured

SELECT COUNT(*) OVER () FROM people;
-- 1:8 window: a window function here would look at single records

SELECT COUNT(*) FROM people AS a JOIN people AS b USING (age);
-- 1:34 join: records of the private table cannot be joined with each other

SELECT COUNT(*) FROM people TABLESAMPLE 10%;
-- 1:22 sample: sampling is not supported: it is not the same every time

SELECT COUNT(*) FROM people WHERE age = ?;
-- 1:1 parameter: no value is given for $1

SELECT COUNT(*) FROM people WHERE COUNT(*) > 3;
-- 1:35 misplaced-aggregate: COUNT(*) is not allowed in WHERE, GROUP BY or FILTER

SELECT sex, COUNT(*) FROM people GROUP BY sex QUALIFY TRUE;
-- 1:1 duckdb: DuckDB says: Binder Error: at least one window function must appear in the SELECT column or QUALIFY clause

DROP TABLE people;
-- 1:1 not-a-select: only SELECT statements are answered

SELECT COUNT(*) FORM people;
-- 1:22 syntax: syntax error at or near "people"

SELECT COUNT(*) FROM people WHERE CAST(sex AS INTEGER) = 1;
-- 1:35 evaluation: DuckDB says: Conversion Error: Could not convert string 'm' to INT32 when casting from source column sex

SELECT COUNT(*) FROM people WHERE sex > 3;
-- 1:35 duckdb: DuckDB says: Binder Error: Cannot compare values of type VARCHAR and type INTEGER_LITERAL - an explicit cast is required

SELECT income, COUNT(*) FROM people GROUP BY income;
-- 1:46 real-column: the real column 'income' can only be compared with constants, binned or counted

SELECT COUNT(*) FROM people WHERE frobnicate(age) = 1;
-- 1:35 unknown-function: there is no function 'frobnicate'

SELECT COUNT(*) FROM people WHERE current_setting('threads') = '1';
-- 1:35 nondeterministic: current_setting does not give the same value every time

SELECT age, COUNT(*) FROM people GROUP BY sex;
-- 1:8 duckdb: DuckDB says: Binder Error: column "age" must appear in the GROUP BY clause or must be part of an aggregate function.

SELECT COUNT(*) FROM people p WHERE p.age = length(people.sex);
-- 1:52 unknown-table: there is no table 'people'

SELECT COUNT(*) FROM read_csv('people.csv');
-- 1:22 table-function: table functions are not supported
