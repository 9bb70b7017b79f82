-- name: kinds
SELECT kind, language, COUNT(*) AS loans FROM loans GROUP BY kind, language;
