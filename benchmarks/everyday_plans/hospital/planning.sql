-- name: weekdays
SELECT isodow(admitted) AS weekday, COUNT(*) AS stays FROM stays GROUP BY weekday ORDER BY weekday;

-- name: wards
SELECT ward, COUNT(*) AS stays, AVG(duration) AS hours FROM stays GROUP BY ward;

-- name: ward_by_month
SELECT ward, month(admitted) AS month, COUNT(*) AS stays FROM stays GROUP BY ward, month;

-- name: weekend_emergencies
SELECT ward, COUNT(*) AS stays FROM stays WHERE emergency AND isodow(admitted) >= 6 GROUP BY ward;

-- name: beds
SELECT admitted, COUNT(*) AS stays FROM stays WHERE ward = 'intensive care' GROUP BY admitted;
