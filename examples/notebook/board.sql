-- name: visits_by_ward
SELECT ward, COUNT(*) AS visits FROM visits GROUP BY ward;

-- name: all_visits
SELECT COUNT(*) AS visits FROM visits;
