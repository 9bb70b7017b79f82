"""The boundary itself: what it imports, exports and claims."""

import ast
import importlib
import re
import sys
from pathlib import Path

import pytest

import sqlmadp.private as private

FOLDER = Path(private.__file__).parent
MODULES = sorted(FOLDER.rglob("*.py"))
ALLOWED = {"numpy", "scipy.sparse", "sqlglot.exp", "msgspec"}
SUBMODULES = (
    "numpy.typing.",
    "sqlmadp.private",
    "sqlmadp.schema.",
    "sqlmadp.table.",
    "sqlmadp.errors.",
)
OPENDP_USERS = {"noise.py"}
ENGINES = {"duckdb": "duckdb", "psycopg": "postgres", "pyspark": "spark"}
FORBIDDEN = {"random", "secrets", "numpy.random", "logging", "warnings"}


def imported_names(module):
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_allowed(name, module):
    path = module.relative_to(FOLDER).as_posix()
    top = name.partition(".")[0]
    if name in FORBIDDEN or name.rpartition(".")[0] in FORBIDDEN:
        return False
    return (
        top in sys.stdlib_module_names
        or (top == "opendp" and path in OPENDP_USERS)
        or (top in ENGINES and path == f"engines/{ENGINES[top]}.py")
        or name.startswith(SUBMODULES)
        or name in ALLOWED
    )


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.relative_to(FOLDER).as_posix())
def test_a_module_of_the_boundary_imports_only_what_an_auditor_expects(module):
    assert [name for name in imported_names(module) if not is_allowed(name, module)] == []


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.relative_to(FOLDER).as_posix())
def test_a_module_of_the_boundary_states_its_claim(module):
    header = ast.get_docstring(ast.parse(module.read_text()))
    assert re.findall(r"^(Guarantee|Requires|Numerics)  ", header, re.MULTILINE) == [
        "Guarantee",
        "Requires",
        "Numerics",
    ]


def test_the_boundary_exports_three_names():
    assert private.__all__ == ["Ledger", "Measurement", "measure"]


PROOF = (FOLDER / "PROOF.md").read_text()
ROOT = Path(__file__).parents[2]


def test_every_function_that_the_proof_names_exists():
    named = set(re.findall(r"`(\w+)\.([\w.]+)`", PROOF)) - {("module", "function")}
    assert len(named) >= 20
    for module, path in sorted(named):
        folder = "private.engines" if (FOLDER / "engines" / f"{module}.py").exists() else "private"
        found = importlib.import_module(f"sqlmadp.{folder}.{module}")
        for name in path.split("."):
            found = getattr(found, name)
        assert callable(found) or isinstance(found, property)


def test_every_step_of_the_proof_names_functions_and_tests_that_exist():
    steps = re.split(r"^\*\*\d+\. ", PROOF, flags=re.MULTILINE)[1:]
    assert len(steps) == 12
    for step in steps:
        tried = step.partition("*Tried by*")[2]
        files = re.findall(r"`((?:tests|benchmarks)/[\w/]+\.py)`", tried)
        assert files
        assert all((ROOT / file).is_file() for file in files)


def test_every_module_of_the_boundary_is_part_of_the_proof():
    helping = {"__init__", "files", *ENGINES.values()}
    for module in {path.stem for path in MODULES} - helping:
        assert f"`{module}." in PROOF, module
