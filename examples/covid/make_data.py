"""Makes up covid_deaths.parquet: a few thousand deaths, most of them at a high age.

The records are invented.  Run it again and the same file comes out.
"""

from pathlib import Path

import duckdb

DEATHS = {
    "under 1": 1,
    "1-4": 1,
    "5-14": 2,
    "15-24": 9,
    "25-34": 38,
    "35-44": 97,
    "45-54": 262,
    "55-64": 641,
    "65-74": 1127,
    "75-84": 1415,
    "85+": 1607,
}


def main() -> None:
    """Write the records beside this script, in an order that has nothing to do with age."""
    target = Path(__file__).with_name("covid_deaths.parquet")
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("CREATE TABLE counts (age_group VARCHAR, deaths BIGINT)")
    connection.executemany("INSERT INTO counts VALUES (?, ?)", list(DEATHS.items()))
    connection.execute(
        f"""
        COPY (
            SELECT age_group
            FROM (SELECT age_group, unnest(range(deaths)) AS number FROM counts)
            ORDER BY md5(age_group || ' ' || number)
        ) TO '{target}' (FORMAT parquet, COMPRESSION zstd)
        """
    )


if __name__ == "__main__":
    main()
