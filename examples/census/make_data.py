"""Makes up people.parquet: 20,000 persons with the skew of a real census.

The records are invented: states by rough population, ages by a pyramid that narrows from
60 on, races by state, slightly more women than men and more so at a high age.  Run it
again and the same file comes out.
"""

from __future__ import annotations

import random
from pathlib import Path

import duckdb

PERSONS = 20_000

# Rough populations, in hundreds of thousands.
_POPULATIONS = """
    AL 50  AK 7  AZ 72  AR 30  CA 395  CO 58  CT 36  DE 10  DC 7  FL 215  GA 107
    HI 15  ID 18  IL 128  IN 68  IA 32  KS 29  KY 45  LA 47  ME 14  MD 62  MA 70
    MI 101  MN 57  MS 30  MO 62  MT 11  NE 20  NV 31  NH 14  NJ 93  NM 21  NY 202
    NC 104  ND 8  OH 118  OK 40  OR 42  PA 130  RI 11  SC 51  SD 9  TN 69  TX 291
    UT 33  VT 6  VA 86  WA 77  WV 18  WI 59  WY 6
"""
STATES = dict(zip(_POPULATIONS.split()[::2], map(int, _POPULATIONS.split()[1::2]), strict=True))

# Percentages of races in most states, and where they are plainly different.
RACES = ("white", "black", "american indian", "asian", "pacific islander", "other", "two or more")
USUAL = (70, 11, 1, 4, 0.2, 5, 9)
UNUSUAL = {
    **dict.fromkeys(["AL", "DC", "DE", "GA", "LA", "MD", "MS", "SC"], (58, 31, 0.5, 3, 0.1, 3, 5)),
    **dict.fromkeys(["AK", "NM", "OK", "SD"], (62, 4, 11, 3, 0.6, 6, 14)),
    **dict.fromkeys(["CA", "NV", "NJ", "NY", "WA"], (50, 9, 1.2, 13, 0.4, 13, 14)),
    **dict.fromkeys(["HI"], (23, 2, 0.3, 37, 11, 2, 25)),
}


def pyramid(sex: str) -> list[float]:
    """Return how common each age from 0 to 99 is: level up to 60, then falling off."""
    decline = 0.055 if sex == "female" else 0.065
    return [1.0 if age <= 60 else (1 - decline) ** ((age - 60) ** 1.12) for age in range(100)]


def persons() -> list[tuple[int, str, str, str]]:
    """Return the records, in the order of the table's columns."""
    draw = random.Random(2021)  # Invented data, so a fixed seed: this is no noise.
    pyramids = {sex: pyramid(sex) for sex in ("female", "male")}
    records = []
    for state in draw.choices(list(STATES), list(STATES.values()), k=PERSONS):
        (sex,) = draw.choices(("female", "male"), (0.508, 0.492))
        (race,) = draw.choices(RACES, UNUSUAL.get(state, USUAL))
        (age,) = draw.choices(range(100), pyramids[sex])
        records.append((age, sex, race, state))
    return records


def main() -> None:
    """Write the records beside this script."""
    target = Path(__file__).with_name("people.parquet")
    connection = duckdb.connect(config={"threads": 1})
    connection.execute(
        """
        CREATE TABLE people AS
        SELECT unnest(?::BIGINT[]) AS age, unnest(?::VARCHAR[]) AS sex,
               unnest(?::VARCHAR[]) AS race, unnest(?::VARCHAR[]) AS state
        """,
        [list(values) for values in zip(*persons(), strict=True)],
    )
    connection.execute(f"COPY people TO '{target}' (FORMAT parquet, COMPRESSION zstd)")


if __name__ == "__main__":
    main()
