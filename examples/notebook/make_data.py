"""Write visits.parquet: some 16,000 made-up visits, the same at every run."""

from pathlib import Path

import duckdb

WARDS = "['children', 'surgery', 'medicine', 'medicine', 'maternity']"

VISITS = f"""
WITH drawn AS (
    SELECT
        DATE '2024-02-01' + CAST(i * 7919 % 28 AS INTEGER) AS day,
        {WARDS}[1 + i * 104729 // 28 % 5] AS ward,
        i * 1299709 // 140 % 1000 AS lot
    FROM range(20000) AS t(i)
)
SELECT
    day,
    ward,
    CASE ward
        WHEN 'children' THEN lot % 16
        WHEN 'maternity' THEN 18 + lot % 25
        ELSE least(lot % 100, 20 + lot // 13)
    END AS age
FROM drawn
WHERE dayofweek(day) BETWEEN 1 AND 5 OR lot % 3 = 0
"""

if __name__ == "__main__":
    path = Path(__file__).with_name("visits.parquet")
    duckdb.execute(f"COPY ({VISITS}) TO '{path}' (FORMAT parquet)")
    print(f"wrote {path.name}")
