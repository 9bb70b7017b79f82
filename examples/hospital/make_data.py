"""Makes up stays.parquet: the stays of a year, most patients with one, some with many.

The records are invented.  Run it again and the same file comes out.
"""

from __future__ import annotations

import random
from datetime import date, timedelta
from pathlib import Path

import duckdb

PATIENTS = 4_000

DIAGNOSES = {
    "medicine": {"heart": 34, "lung": 28, "cancer": 14, "other": 24},
    "surgery": {"injury": 46, "cancer": 24, "heart": 8, "other": 22},
    "maternity": {"birth": 88, "other": 12},
    "children": {"lung": 34, "injury": 30, "other": 36},
}
"""How common each diagnosis is in a ward, in parts of a hundred."""

AGES = {"medicine": (66, 16), "surgery": (52, 19), "maternity": (31, 5), "children": (7, 5)}
"""Mean age and how far it spreads."""


def stays() -> list[tuple[int, int, date, str, str | None, str | None, int]]:
    """Return the records, in the order of the table's columns."""
    draw = random.Random(2023)  # Invented data, so a fixed seed: this is no noise.
    records = []
    for patient in range(PATIENTS):
        (ward,) = draw.choices(list(DIAGNOSES), (44, 30, 14, 12))
        sex = "female" if ward == "maternity" else draw.choice(("female", "male"))
        age = min(max(round(draw.gauss(*AGES[ward])), 0), 99)
        for _ in range(min(1 + int(draw.expovariate(1.4)), 12)):
            day = date(2023, 1, 1) + timedelta(days=_day(draw, ward))
            (diagnosis,) = draw.choices(list(DIAGNOSES[ward]), list(DIAGNOSES[ward].values()))
            coded = diagnosis if draw.random() < (0.95 if day.month < 11 else 0.7) else None
            known = sex if draw.random() < 0.98 else None
            records.append((patient, len(records), day, ward, coded, known, age))
    return records


def _day(draw: random.Random, ward: str) -> int:
    """Return a day of the year; in medicine more of them are in winter."""
    day = draw.randrange(365)
    if ward == "medicine" and 90 <= day < 270 and draw.random() < 0.35:
        day = (day + 180) % 365
    return day


def main() -> None:
    """Write the records beside this script."""
    target = Path(__file__).with_name("stays.parquet")
    connection = duckdb.connect(config={"threads": 1})
    connection.execute(
        """
        CREATE TABLE stays AS
        SELECT unnest(?::BIGINT[]) AS patient, unnest(?::BIGINT[]) AS stay,
               unnest(?::DATE[]) AS admitted, unnest(?::VARCHAR[]) AS ward,
               unnest(?::VARCHAR[]) AS diagnosis, unnest(?::VARCHAR[]) AS sex,
               unnest(?::BIGINT[]) AS age
        """,
        [list(values) for values in zip(*stays(), strict=True)],
    )
    connection.execute(f"COPY stays TO '{target}' (FORMAT parquet, COMPRESSION zstd)")


if __name__ == "__main__":
    main()
