-- name: languages
SELECT language, COUNT(*) AS loans FROM loans GROUP BY language;
