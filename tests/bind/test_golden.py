"""Golden pairs: statements with the cells they select, and statements with their refusals."""

import re
from pathlib import Path

import numpy as np
import pytest

from sqlmadp.bind.bind import BoundQuery, bind_all, cuts
from sqlmadp.bind.evaluate import Evaluator
from sqlmadp.errors import SqlError
from sqlmadp.sql.statements import Statement, split
from sqlmadp.table.domain import Column, Domain

GOLDEN = Path(__file__).parent.parent / "golden"

DOMAIN = Domain(
    table="people",
    columns=(
        Column(name="age", type="integer", minimum=0, maximum=5),
        Column(name="sex", type="category", values=("m", "f"), nullable=True),
        Column(name="member", type="boolean"),
        Column(name="income", type="real", minimum=0.0, maximum=5000.0, nullable=True),
    ),
)


def read(path: Path) -> list[tuple[str, str]]:
    """Return every statement of a golden file with what is expected of it."""
    blocks = path.read_text().split("\n\n")[1:]
    pairs = [re.match(r"(.*?;)\n?(.*)", block, re.DOTALL) for block in blocks]
    return [(sql, expected.strip()) for sql, expected in (pair.groups() for pair in pairs)]


def pairs(pattern: str, *, refused: bool) -> list:
    return [
        pytest.param(sql, expected, id=f"{path.stem}-{number}")
        for path in sorted(GOLDEN.glob(pattern))
        if path.stem.endswith("refused") == refused
        for number, (sql, expected) in enumerate(read(path), start=1)
    ]


def bound(sql: str) -> tuple[BoundQuery, Domain]:
    statements = split(sql, file="golden.sql")
    evaluator = Evaluator(DOMAIN.with_cuts(cuts(statements, DOMAIN)))
    (query,) = bind_all(statements, evaluator)
    return query, evaluator.domain


def selected(query: BoundQuery, domain: Domain) -> str:
    lines = []
    for row in range(query.rows):
        keys = ", ".join(str(column[row]) for column in query.blocks[0].keys.columns)
        for place, block in enumerate(query.aggregates):
            cells = []
            for cell in block.matrix[[row]].indices:
                groups = np.unravel_index(cell, block.shape) if block.scope else ()
                cells.append(
                    " ".join(
                        f"{name}={values(domain.column(name), partition.pieces == group)}"
                        for name, partition, group in zip(
                            block.scope, block.parts, groups, strict=True
                        )
                    )
                    or "everything"
                )
            lines.append(f"-- ({keys}) __a{place}: {' + '.join(sorted(cells)) or 'nothing'}")
    return "\n".join(lines) or "-- no group"


def values(column: Column, chosen: np.ndarray) -> str:
    return "|".join(column.describe(int(cell)) for cell in np.flatnonzero(chosen))


def refusals(sql: str) -> str:
    statement = Statement("golden.sql", "q1", sql.rstrip(";"))
    evaluator = Evaluator(DOMAIN.with_cuts(cuts([statement], DOMAIN)))
    with pytest.raises(SqlError) as caught:
        bind_all([statement], evaluator)
    return "\n".join(f"-- {p.line}:{p.column} {p.code}: {p.message}" for p in caught.value.problems)


@pytest.mark.parametrize(("sql", "expected"), pairs("*.sql", refused=False))
def test_a_statement_selects_these_cells(sql, expected):
    assert selected(*bound(sql)) == expected


@pytest.mark.parametrize(("sql", "expected"), pairs("*.sql", refused=True))
def test_a_statement_is_refused_with_these_words(sql, expected):
    assert refusals(sql) == expected
