-- name: totals
SELECT COUNT(*) AS loans, COUNT_IF(reserved) AS reserved, SUM(renewed) AS renewals FROM loans;
