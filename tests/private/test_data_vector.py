"""Counts agree with counting in Python, whatever the table holds."""

import itertools
import math
import tracemalloc
from collections import Counter
from datetime import date, timedelta

import duckdb
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sqlmadp.private.data_vector import read_counts, read_sums
from sqlmadp.private.engines import Source, open_engine
from sqlmadp.private.engines.counting import counting_select
from sqlmadp.private.engines.scope_batches import (
    BYTES_PER_SUM,
    FEW_CELLS,
    MAX_BATCH_BYTES,
    answer_bytes,
    batch_scopes,
    keys_of,
)
from sqlmadp.table.domain import Column, Domain
from sqlmadp.table.partition import Partition
from sqlmadp.table.rows import Rows

FIRST, LAST = date(2020, 2, 27), date(2020, 3, 2)
ODD = (math.inf, -math.inf, math.nan, None)


def domain_of(*, outside="null", nullable=False, complete=()):
    """Return a domain whose columns at the places ``complete`` are declared so."""

    def shared(place):
        return {"nullable": nullable and place not in complete, "complete": place in complete}

    def ordered(place):
        return {"outside": outside, **shared(place)}

    return Domain(
        table="t",
        columns=(
            Column(name="word", type="category", values=("b", "a", "it's"), **shared(0)),
            Column(name="code", type="category", values=(7, -1), **shared(1)),
            Column(name="Flag", type="boolean", **shared(2)),
            Column(name="age", type="integer", minimum=-1, maximum=2, **ordered(3)),
            Column(name="day", type="date", minimum=FIRST, maximum=LAST, **ordered(4)),
            Column(name="size", type="real", minimum=0, maximum=1, cuts=(0.1, 0.3), **ordered(5)),
        ),
    )


def cell_of(column, value):
    """Return the cell of one value by the words of the design, or None if it breaks a promise."""
    if value is None:
        return column.null_cell
    if column.type in {"category", "boolean"}:
        values = list(column.values) or [False, True]
        return values.index(value) if value in values else column.null_cell
    low, high = column.minimum, column.maximum
    if value != value or (column.outside == "null" and not low <= value <= high):
        return column.null_cell
    value = min(max(value, low), high)
    if column.type == "real":
        return column.cell_of_real(value)
    return value - low if column.type == "integer" else (value - low).days


def counted_in_python(domain, marginal, records):
    counts = np.zeros(marginal.size, dtype=np.int64)
    names = [column.name for column in domain.columns]
    for record in records:
        cells = [cell_of(c, value) for c, value in zip(domain.columns, record, strict=True)]
        if None in cells:
            continue
        place = 0
        for name, partition in zip(marginal.scope, marginal.parts, strict=True):
            place = place * partition.size + partition.pieces[cells[names.index(name)]]
        counts[place] += 1
    return counts


RECORDS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "it's", "A", "", "é\u0000", None]),
        st.sampled_from([7, -1, 0, None]),
        st.sampled_from([True, False, None]),
        st.sampled_from([-1, 0, 2, 3, -2, 2**62, -(2**63), None]),
        st.sampled_from([None, *(FIRST + timedelta(days) for days in range(-1, 6))]),
        st.sampled_from(
            [0.0, -0.0, 0.1, math.nextafter(0.1, 1), 0.2, 0.3, 0.1 + 0.2, 1.0, 1.5, -5e-324, *ODD]
        ),
    ),
    max_size=12,
)
SCOPES = st.lists(
    st.sets(st.sampled_from(["word", "code", "Flag", "age", "day", "size"]), max_size=3),
    min_size=1,
    max_size=4,
)


def marginals_of(draw, domain, scopes):
    for scope in scopes:
        names = tuple(sorted(scope))
        sizes = [domain.column(name).size for name in names]
        yield Rows(
            names,
            tuple(
                Partition.flat(np.array(draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))))
                if draw(st.booleans())
                else Partition.finest(n)
                for n in sizes
            ),
        )


def write_table(folder, records, kind):
    path = folder / f"t.{kind}"
    path.unlink(missing_ok=True)
    with duckdb.connect(str(path) if kind == "duckdb" else ":memory:") as connection:
        connection.execute(
            "CREATE TABLE t (word VARCHAR, code INTEGER, flag BOOLEAN, age BIGINT, "
            "day DATE, size DOUBLE)"
        )
        if records:
            connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?)", records)
        if kind != "duckdb":
            connection.execute(f"COPY t TO '{path}'")
    return Source(location=path.name, folder=folder)


def counts_of(source, domain, marginals):
    engine = open_engine(source, table="t")
    try:
        return read_counts(engine, domain, marginals)
    finally:
        engine.close()


@pytest.mark.parametrize("kind", ["duckdb", "parquet"])
@given(
    data=st.data(),
    records=RECORDS,
    nullable=st.booleans(),
    complete=st.sets(st.integers(0, 5)),
    outside=st.sampled_from(["null", "clamp"]),
    scopes=SCOPES,
)
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_counts_are_those_of_python(
    kind, tmp_path, data, records, nullable, complete, outside, scopes
):
    domain = domain_of(nullable=nullable, complete=complete, outside=outside)
    marginals = list(marginals_of(data.draw, domain, scopes))
    counts = counts_of(write_table(tmp_path, records, kind), domain, marginals)
    for marginal, counted in zip(marginals, counts, strict=True):
        assert counted.dtype == np.int64
        np.testing.assert_array_equal(counted, counted_in_python(domain, marginal, records))


@pytest.fixture
def csv_counts(tmp_path):
    """Return a function that counts one column of a CSV file, by what its cells are called."""

    def count(column, *fields):
        (tmp_path / "t.csv").write_bytes(b"\n".join([column.name.encode(), *fields, b""]))
        domain = Domain(table="t", columns=(column,))
        marginal = Rows((column.name,), (Partition.finest(column.size),))
        (counts,) = counts_of(Source(location="t.csv", folder=tmp_path), domain, [marginal])
        return {column.describe(cell): int(n) for cell, n in enumerate(counts) if n}

    return count


def test_text_that_is_no_declared_integer_is_read_as_null(csv_counts):
    age = Column(name="age", type="integer", minimum=0, maximum=9)
    fields = [b"3", b"x", b"9" * 30, b"9" * 300, b"-1", b"10", b'""', b"NULL", b"nan", b"3"]
    assert csv_counts(age, *fields) == {"3": 2, "NULL": 8}


def test_a_huge_integer_is_clamped(csv_counts):
    age = Column(name="age", type="integer", minimum=0, maximum=9, outside="clamp")
    assert csv_counts(age, b"9" * 30, b"-" + b"9" * 30, b"5") == {"9": 1, "0": 1, "5": 1}


def test_text_that_is_no_declared_date_is_read_as_null(csv_counts):
    day = Column(name="day", type="date", minimum=FIRST, maximum=LAST)
    fields = [b"2020-02-29", b"2020-02-30", b"2020-13-01", b"tomorrow", b"0", b"99999999-01-01"]
    assert csv_counts(day, *fields, b"28.02.2020") == {"2020-02-29": 1, "NULL": 6}


def test_infinite_dates_and_reals_are_clamped_and_nan_is_not(csv_counts):
    day = Column(name="day", type="date", minimum=FIRST, maximum=LAST, outside="clamp")
    assert csv_counts(day, b"infinity", b"-infinity") == {str(LAST): 1, str(FIRST): 1}
    size = Column(name="size", type="real", minimum=0, maximum=1, outside="clamp")
    fields = [b"inf", b"-inf", b"nan", b"-nan", b"1e300", b"0.5", b"one"]
    assert csv_counts(size, *fields) == {"1.0": 2, "0.0": 1, "between 0.0 and 1.0": 1, "NULL": 3}


def test_lines_that_do_not_parse_are_counted_nowhere(csv_counts):
    word = Column(name="word", type="category", values=("a", "b"), complete=True)
    fields = [b"a", b"\xff\xfe", b'"a', b"b", b'c"']
    assert csv_counts(word, b"a", b"b,b", b'"b"', b"z" * 3_000_000, b"a\x00", *fields) == {
        "a": 2,
        "b": 2,
    }


@pytest.mark.parametrize("dictionary", ["DICTIONARY_SIZE_LIMIT 1, ", ""])
def test_bytes_that_are_no_text_are_read_as_null_and_stop_nothing(tmp_path, dictionary):
    path = tmp_path / "t.parquet"
    with duckdb.connect() as connection:
        connection.execute(
            "COPY (SELECT CASE WHEN range % 2 = 0 THEN 'a' ELSE 'XXword' END AS word "
            f"FROM range(2000)) TO '{path}' ({dictionary}COMPRESSION uncompressed)"
        )
    written = path.read_bytes()
    assert b"XXword" in written
    path.write_bytes(written.replace(b"XXword", b"\xff\xfeword"))
    word = Column(name="word", type="category", values=("a", "b"))
    marginal = Rows(("word",), (Partition.finest(3),))
    source = Source(location="t.parquet", folder=tmp_path)
    (counts,) = counts_of(source, Domain(table="t", columns=(word,)), [marginal])
    assert counts.tolist() == [1000, 0, 1000]


def test_a_collation_does_not_merge_values(tmp_path):
    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        connection.execute("CREATE TABLE t (word VARCHAR COLLATE NOCASE)")
        connection.execute("INSERT INTO t VALUES ('a'), ('A'), ('a'), ('B')")
    word = Column(name="word", type="category", values=("a", "A", "b"))
    marginal = Rows(("word",), (Partition.finest(4),))
    source = Source(location="t.duckdb", folder=tmp_path)
    (counts,) = counts_of(source, Domain(table="t", columns=(word,)), [marginal])
    assert counts.tolist() == [2, 1, 0, 1]


GOOD, BAD = ("a", 7, True, 0, FIRST, 0.5), ("a", 7, True, 99, FIRST, 0.5)


def test_a_record_that_breaks_the_promise_of_one_column_is_counted_in_no_scope(tmp_path):
    source = write_table(tmp_path, [GOOD, BAD], "parquet")
    word = Rows(("word",), (Partition.finest(4),))
    counts = counts_of(source, domain_of(complete=[3]), [word, Rows((), (), 1)])
    assert [count.tolist() for count in counts] == [[0, 1, 0, 0], [1]]


def test_an_undeclared_value_is_seen_only_where_its_column_is_counted(tmp_path):
    nothing = (None,) * 6
    source = write_table(tmp_path, [GOOD, BAD, nothing], "parquet")
    domain = domain_of()
    word, age = (
        Rows(("word",), (Partition.finest(4),)),
        Rows(("age",), (Partition.finest(5),)),
    )
    counts = counts_of(source, domain, [word, age, Rows((), (), 1)])
    assert [count.tolist() for count in counts] == [[0, 2, 0, 1], [0, 1, 0, 0, 2], [3]]


def test_an_empty_table_has_zeros_everywhere(tmp_path):
    domain = domain_of(nullable=True, outside="clamp")
    word = Rows(("word",), (Partition.finest(4),))
    counts = counts_of(write_table(tmp_path, [], "parquet"), domain, [word, Rows((), (), 1)])
    assert [count.tolist() for count in counts] == [[0, 0, 0, 0], [0]]


def test_the_statement_is_the_same_whatever_the_records_and_the_partitions(tmp_path):
    domain = domain_of(nullable=True, outside="null")
    tables = [[], [("a", 7, True, 0, FIRST, 0.5)], [("canary", 8, None, 5, LAST, math.nan)] * 9]
    statements = set()
    for records in tables:
        engine = open_engine(write_table(tmp_path, records, "duckdb"), table="t")
        scopes = [keys_of(finest(domain, *scope), domain) for scope in (["age"], ["age", "word"])]
        statements.add(counting_select(engine, domain, scopes).sql("duckdb"))
        engine.close()
    assert len(statements) == 1
    assert "canary" not in statements.pop()


@pytest.mark.slow
def test_many_cuts_are_searched_correctly(tmp_path):
    size = Column(name="size", type="real", minimum=0, maximum=1000)
    size = size.with_cuts(float(cut) for cut in range(1, 1000))
    domain = Domain(table="t", columns=(size,))
    values = [half / 2 for half in range(2001)]
    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        connection.execute("CREATE TABLE t AS SELECT range / 2 AS size FROM range(2001)")
    marginal = Rows(("size",), (Partition.finest(size.size),))
    (counts,) = counts_of(Source(location="t.duckdb", folder=tmp_path), domain, [marginal])
    expected = Counter(size.cell_of_real(value) for value in values)
    assert {cell: n for cell, n in enumerate(counts.tolist()) if n} == expected


def test_a_value_that_is_declared_twice_counts_its_records_once(tmp_path):
    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        connection.execute("CREATE TABLE t AS SELECT unnest(['a', 'a', 'b', 'c']) AS word")
    word = Column(name="word", type="category", values=("a", "b", "a"))
    marginal = Rows(("word",), (Partition.finest(4),))
    source = Source(location="t.duckdb", folder=tmp_path)
    (counts,) = counts_of(source, Domain(table="t", columns=(word,)), [marginal])
    assert counts.sum() == 4


WIDE = Domain(
    table="t",
    columns=tuple(
        Column(name=name, type="integer", minimum=0, maximum=99_999, complete=True)
        for name in ("a", "b", "c")
    ),
)


def test_a_scope_of_very_many_cells_is_counted_without_one_number_a_cell(tmp_path, marginal_of):
    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        connection.execute("CREATE TABLE t AS SELECT 7 AS a, 8 AS b, 9 AS c FROM range(5)")
    engine = open_engine(Source(location="t.duckdb", folder=tmp_path), table="t")
    (found,) = read_sums(engine, WIDE, [marginal_of(WIDE, "a", "b", "c")])
    engine.close()
    assert found.size == 10**15
    assert (found.vertices.tolist(), found.sums.tolist()) == ([7 * 10**10 + 8 * 10**5 + 9], [5])


def finest(domain, *names):
    parts = tuple(Partition.finest(domain.column(name).size) for name in names)
    return Rows(names, parts)


def together(domain, scopes):
    """Return the names of the columns that are counted for every scope."""
    keys = {scope: keys_of(finest(domain, *scope), domain) for scope in scopes}
    counted = batch_scopes(keys.values())
    return {scope: tuple(key.column for key in counted[own]) for scope, own in keys.items()}


def bytes_of(domain, scopes):
    return answer_bytes(domain, [finest(domain, *scope) for scope in scopes])


@given(
    sizes=st.lists(st.integers(1, 700), min_size=1, max_size=6),
    chosen=st.sets(st.frozensets(st.integers(0, 5), max_size=4), min_size=1, max_size=12),
)
def test_scopes_are_counted_together_while_that_takes_few_cells(sizes, chosen):
    columns = [
        Column(name=f"c{number}", type="integer", minimum=1, maximum=size, complete=True)
        for number, size in enumerate(sizes)
    ]
    domain = Domain(table="t", columns=tuple(columns))
    scopes = {tuple(f"c{n}" for n in sorted(each) if n < len(sizes)) for each in chosen}
    counted = together(domain, scopes)
    assert set(counted) == scopes
    assert all(set(scope) <= set(counted[scope]) for scope in scopes)
    for scope in set(counted.values()) - scopes:
        assert math.prod(domain.column(name).size for name in scope) <= FEW_CELLS
    assert len(set(counted.values())) == 1 or math.prod(sizes) > FEW_CELLS


def test_scopes_of_many_cells_are_counted_apart():
    sizes = {"a": 512, "b": 512, "c": 2}
    columns = [
        Column(name=n, type="integer", minimum=1, maximum=m, complete=True)
        for n, m in sizes.items()
    ]
    counted = together(Domain(table="t", columns=tuple(columns)), [("a", "b"), ("c",)])
    assert counted == {("a", "b"): ("a", "b"), ("c",): ("c",)}


def test_many_scopes_are_counted_apart_if_their_answer_would_not_fit():
    names = [f"c{number:02}" for number in range(60)]
    columns = [Column(name=n, type="integer", minimum=1, maximum=10, complete=True) for n in names]
    domain = Domain(table="t", columns=tuple(columns))
    pairs = list(itertools.combinations(names, 2))
    rows = 100 * len(pairs)
    assert bytes_of(domain, pairs) <= max(MAX_BATCH_BYTES, 2 * rows * 121 * 9)
    few = list(itertools.combinations(names[:5], 2))
    assert set(together(domain, few).values()) == {tuple(names[:5])}
    assert bytes_of(domain, few) == 10**5 * 6 * 9
    assert bytes_of(domain, [(), ("c01",)]) == 10 * 2 * 9


def test_one_scope_that_the_others_are_part_of_is_grouped_by_alone(tmp_path):
    domain = domain_of(nullable=True, outside="null")
    engine = open_engine(write_table(tmp_path, [], "duckdb"), table="t")
    names = [("age",), ("age", "word"), ()]
    scopes = batch_scopes([keys_of(finest(domain, *scope), domain) for scope in names])
    statement = counting_select(engine, domain, [*set(scopes.values())]).sql("duckdb")
    engine.close()
    assert set(together(domain, names).values()) == {("age", "word")}
    assert "GROUPING" not in statement


def test_the_memory_of_a_summed_column_is_bounded_before_any_data(tmp_path):
    groups, highest = 30_000, 999_999
    columns = [
        Column(name="g", type="integer", minimum=1, maximum=groups, complete=True),
        Column(name="v", type="integer", minimum=0, maximum=highest, complete=True),
    ]
    domain = Domain(table="t", columns=tuple(columns))
    cells = np.arange(highest + 1)
    curve = Partition(np.zeros_like(cells), cells, np.array([2]), highest)
    layout = Rows(("g", "v"), (Partition.finest(groups), curve), 1)
    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        connection.execute(
            f"CREATE TABLE t AS SELECT 1 + range AS g, {highest} AS v FROM range({groups})"
        )
    engine = open_engine(Source(location="t.duckdb", folder=tmp_path), table="t")
    read_sums(engine, domain, [layout])  # What is imported or kept by the first one is no part.
    tracemalloc.start()
    (found,) = read_sums(engine, domain, [layout])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    engine.close()
    assert len(found.sums) == groups  # All at the last vertex of their group's curve.
    bound = answer_bytes(domain, [layout])
    assert bound // 4 < peak < bound
    assert answer_bytes(domain, [layout] * 2) - bound == 3 * groups * BYTES_PER_SUM


@pytest.mark.parametrize("end", [2**52 + 300_001, -(2**52) - 1])
def test_rounding_leads_out_of_neither_end_of_a_column_with_decimals(tmp_path, end):
    """Beyond an end a ramp would go on, and a record would move it by more than its units."""
    ends = {"minimum": float(end - 300_000), "maximum": float(end)}
    column = Column(name="x", type="decimal", decimals=0, complete=True, **ends)
    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        connection.execute("CREATE TABLE t AS SELECT ?::DOUBLE AS x", [float(end)])
    ramp = Partition(np.zeros(300_001, np.int64), np.arange(300_001), np.array([1]), 300_000)
    engine = open_engine(Source(location="t.duckdb", folder=tmp_path), table="t")
    try:
        (sums,) = read_counts(
            engine, Domain(table="t", columns=(column,)), [Rows(("x",), (ramp,), 1)]
        )
    finally:
        engine.close()
    assert sums.tolist() == [0, 300_000]
