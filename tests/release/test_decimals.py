"""Real columns with declared decimals: sums, means and groups as DuckDB gives them."""

from datetime import date

import duckdb
import pytest
from people_table import same_rows

import sqlmadp

SCHEMA = """
table = "orders"
[columns.product]
type = "category"
values = ["tea", "mug"]
[columns.price]
type = "real"
decimals = 2
nullable = true
min = 0
max = 49.99
[columns.quantity]
type = "integer"
min = 0
max = 9
[columns.ordered]
type = "date"
min = 2024-01-01
max = 2024-01-31
[columns.delivered]
type = "date"
min = 2024-01-01
max = 2024-02-29
"""
STATEMENTS = [
    "SELECT product, COUNT(*), SUM(price), AVG(price) FROM orders GROUP BY product",
    "SELECT SUM(price * quantity) AS revenue FROM orders",
    "SELECT product, SUM(price * 1.19) FROM orders GROUP BY product",
    "SELECT SUM(CASE product WHEN 'tea' THEN price ELSE 2 * price END) FROM orders",
    "SELECT product, SUM(if(quantity > 5, price, 0)) FROM orders GROUP BY product",
    "SELECT FLOOR(price / 10) * 10 AS band, COUNT(*) FROM orders GROUP BY band",
    "SELECT COUNT(*) FROM orders WHERE price BETWEEN 9.99 AND 20",
    "SELECT price, COUNT(*) AS n FROM orders WHERE price < 0.05 GROUP BY price",
    "SELECT product, AVG(delivered - ordered) AS days FROM orders GROUP BY product",
    "SELECT SUM(date_diff('day', ordered, delivered)) FROM orders",
]


def prices(n: int) -> tuple[object, float | None]:
    """Return a price as it is stored, and as it is read."""
    cents = n * 137 % 5000
    if n % 10 == 0:
        return cents / 100 + 0.004, cents / 100  # To two decimals.
    if n % 11 == 0:
        return 49.999, None  # Above the largest that is declared.
    return cents / 100, cents / 100


@pytest.mark.parametrize("kind", ["DOUBLE", "DECIMAL(8, 3)"])
def test_answers_without_noise_are_those_of_duckdb_on_prices_in_cents(tmp_path, kind):
    columns = "product VARCHAR, price {}, quantity INTEGER, ordered DATE, delivered DATE"
    records = [
        (["tea", "mug"][n % 2], prices(n), n % 10, date(2024, 1, 1 + n % 31), date(2024, 2, 1))
        for n in range(1, 200)
    ]
    with duckdb.connect() as stored, duckdb.connect() as read:
        for connection, place, own in ((stored, 0, kind), (read, 1, "DOUBLE")):
            connection.execute(f"CREATE TABLE orders ({columns.format(own)})")
            given = [(p, price[place], *rest) for p, price, *rest in records]
            connection.executemany("INSERT INTO orders VALUES (?, ?, ?, ?, ?)", given)
        stored.execute(f"COPY orders TO '{tmp_path}/orders.parquet' (FORMAT parquet)")
        (tmp_path / "schema.toml").write_text(SCHEMA)
        (tmp_path / "a.sql").write_text(";\n".join(STATEMENTS))
        (tmp_path / "plan.toml").write_text(
            'schema = "schema.toml"\nsource = "orders.parquet"\nepsilon = "1000000000"\n'
            '[ledger]\npath = "plan.ledger"\nbudget = "1000000000"\n'
            '[analysts.a]\nqueries = "a.sql"\n'
        )
        results = sqlmadp.Plan.open(tmp_path / "plan.toml").release().results()["a"]
        for number, sql in enumerate(STATEMENTS, start=1):
            ours, theirs = results[f"q{number}"], read.execute(sql).fetchall()
            found = [row for row in ours.tuples() if row[-1] or len(row) == 1]
            # Sums along ramps are rounded before the noise: at this epsilon that is all there is.
            assert same_rows(found, theirs, errors=[1e-4] * len(ours.columns)), sql
