-- name: visits_by_ward
SELECT ward, COUNT(*) AS visits
FROM visits
GROUP BY ward;

-- name: emergencies_by_ward
SELECT ward, emergency, COUNT(*) AS visits
FROM visits
GROUP BY ward, emergency;

-- name: seniors
SELECT COUNT(*) AS visits, COUNT(*) FILTER (WHERE age >= 60) AS by_seniors
FROM visits;
