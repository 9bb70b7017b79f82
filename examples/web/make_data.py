"""Makes up views.parquet: page views of a web site, with long tails as real ones have.

The records are invented.  Run it again and the same file comes out.
"""

from __future__ import annotations

import random
from pathlib import Path

import duckdb

VIEWS = 12_000

PAGES = {"home": 24, "search": 22, "product": 34, "basket": 9, "checkout": 5, "help": 6}
DEVICES = {"phone": 58, "tablet": 9, "computer": 33}
SECONDS = {"home": 9, "search": 14, "product": 38, "basket": 22, "checkout": 65, "help": 80}
"""A typical time on each page."""
SIZES = {
    "home": 900,
    "search": 350,
    "product": 1400,
    "basket": 240,
    "checkout": 200,
    "help": 150,
}
"""A typical size of each page, in kilobytes."""


def views() -> list[tuple[str, str, int, float, float]]:
    """Return the records, in the order of the table's columns."""
    draw = random.Random(5)  # Invented data, so a fixed seed: this is no noise.
    records = []
    for _ in range(VIEWS):
        (page,) = draw.choices(list(PAGES), list(PAGES.values()))
        (device,) = draw.choices(list(DEVICES), list(DEVICES.values()))
        hour = min(max(round(draw.gauss(17 if device == "phone" else 13, 3)), 0), 23)
        seconds = round(SECONDS[page] * draw.lognormvariate(0, 1.1), 2)
        kilobytes = round(SIZES[page] * draw.lognormvariate(0, 0.5), 1)
        records.append((page, device, hour, seconds, kilobytes))
    return records


def main() -> None:
    """Write the records beside this script."""
    target = Path(__file__).with_name("views.parquet")
    connection = duckdb.connect(config={"threads": 1})
    connection.execute(
        """
        CREATE TABLE views AS
        SELECT unnest(?::VARCHAR[]) AS page, unnest(?::VARCHAR[]) AS device,
               unnest(?::BIGINT[]) AS hour, unnest(?::DOUBLE[]) AS seconds,
               unnest(?::DOUBLE[]) AS kilobytes
        """,
        [list(values) for values in zip(*views(), strict=True)],
    )
    connection.execute(f"COPY views TO '{target}' (FORMAT parquet, COMPRESSION zstd)")


if __name__ == "__main__":
    main()
