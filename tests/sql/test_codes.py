"""Codes of refusals: every one that is used is listed, and every listed one is used."""

import ast
from pathlib import Path

import constructs

import sqlmadp
from sqlmadp.sql.hints import CODES

ROOT = Path(sqlmadp.__file__).parent
SOURCES = [
    *(ROOT / "sql").glob("*.py"),
    *(ROOT / "bind").glob("*.py"),
    *(ROOT / "answer").glob("*.py"),
    *(ROOT / "release" / name for name in ("bound_plan.py", "size_limits.py", "trial.py")),
]


def used_codes() -> set[str]:
    """Return the codes in refusals and problems, and in tables of messages."""
    found = set()
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                if name in {"refuse", "problem", "RefusedError", "EvaluationError"} and node.args:
                    found |= texts(node.args[0])
                if name == "Problem":
                    found |= {t for k in node.keywords if k.arg == "code" for t in texts(k.value)}
            if isinstance(node, ast.Tuple) and len(node.elts) in (2, 3):
                found |= {text for text in texts(node.elts[0]) if text in CODES}
    return found


def texts(node: ast.expr) -> set[str]:
    return {node.value} if isinstance(node, ast.Constant) and isinstance(node.value, str) else set()


def test_every_code_that_is_used_is_listed_and_the_other_way_round():
    assert used_codes() == set(CODES)


def test_the_table_of_codes_is_what_the_code_says():
    assert constructs.written(constructs.CODE_MARKS) == constructs.codes_table()
