"""The direction of imports, and which module may use which third party."""

import ast
import runpy
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import sqlmadp

ROOT = Path(sqlmadp.__file__).parent
MODULES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py"))

# Everything that a package may import, besides itself.
STAGES = {
    "errors": set(),
    "table": {"errors"},
    "sql": {"errors", "table"},
    "bind": {"errors", "table", "sql"},
    "solve": {"errors", "table"},
    "workload": {"errors", "table"},
    "strategy": {"errors", "table", "solve"},
    "mechanism": {"errors", "table", "workload", "solve", "strategy"},
    "private": {"errors", "table"},
    "answer": {"errors", "table", "sql", "bind", "solve", "private"},
    "files": {"errors", "table", "sql", "mechanism", "private"},
}

WHOLE_PATH = ("release", "show", "experiment", "audit")
"""What puts the stages together: each may import every stage, and those before itself here."""

INTERFACES = {"__init__", "__main__", "cli", "dbapi"}
"""These may import anything, and nothing else imports them."""

GRAPH = runpy.run_path(str(ROOT.parent / "docs" / "make_import_graph.py"))
DOORS = GRAPH["DOORS"]

ALLOWED = {
    "opendp": {"private/noise.py"},
    "psycopg": {"private/engines/postgres.py"},
    "pyspark": {"private/engines/spark.py"},
    "duckdb": {"private/engines/", "sql/", "bind/", "answer/", "audit/", "files/public_tables.py"},
    "numpy.random": {"strategy/", "mechanism/", "experiment/"},
    "scipy.optimize": {"strategy/", "mechanism/"},
    "sqlite3": {"private/"},
    "sqlglot": {"sql/", "bind/", "private/"},
    "threadpoolctl": {"strategy/", "mechanism/", "release/", "experiment/"},
    "click": {"cli/"},
    "rich": {"show/", "audit/report.py"},
    "random": set(),
    "secrets": set(),
    "pickle": set(),
}
"""Where third parties, and some of the standard library, may be imported or called."""

PARSING = {"parse", "parse_one", "transpile", "tokenize", "Parser", "Tokenizer"}
"""What turns text into trees in sqlglot."""


@cache
def tree(module):
    return ast.parse((ROOT / module).read_text(encoding="utf-8"))


def layer(name):
    """``private/engines/duckdb.py`` and ``sqlmadp.private.engines`` are both in ``private``."""
    return name.removeprefix("sqlmadp").lstrip(".").replace("/", ".").split(".")[0]


def imports(module):
    """Yield every imported name in full: modules, and what is taken out of them."""
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def attributes(module):
    """Yield dotted names in the code, such as ``np.random.default_rng``."""
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Attribute):
            yield ast.unparse(node)


def within(module, places):
    return any(module == place or module.startswith(place) for place in places)


def test_there_are_modules_to_look_at():
    assert {"errors.py", "table/domain.py", "private/measure.py"} <= set(MODULES)


def allowed(own):
    """Return the layers that a layer may import."""
    if own in STAGES:
        return STAGES[own] | DOORS.get(own, set())
    before = WHOLE_PATH[: WHOLE_PATH.index(own)]
    return {*STAGES, *before, *DOORS.get(own, ())}


@pytest.mark.parametrize("module", MODULES)
def test_imports_go_down_the_layers_only(module):
    own = layer(module.removesuffix(".py"))
    if own in INTERFACES:
        return
    assert own in {*STAGES, *WHOLE_PATH}, f"{own!r} has no place in the order of layers yet"
    ours = {layer(name) for name in imports(module) if name.split(".")[0] == "sqlmadp"}
    assert ours - {own} <= allowed(own)


@pytest.mark.parametrize("own", DOORS)
def test_doors_open_only_when_they_are_used(own):
    at_once = {
        layer(node.module)
        for module in MODULES
        if layer(module) == own
        for node in tree(module).body
        if isinstance(node, ast.ImportFrom) and node.module.startswith("sqlmadp")
    }
    assert not at_once & DOORS[own]


def test_no_module_imports_itself_by_way_of_others():
    at_head = {
        own: [other for other, head in found.items() if head]
        for own, found in GRAPH["module_graph"]().items()
    }
    TopologicalSorter(at_head).prepare()


def test_the_import_graph_in_the_documents_is_drawn_from_the_code():
    document = (ROOT.parent / "docs" / "architecture.md").read_text()
    assert GRAPH["redrawn"](document) == document, "run 'python docs/make_import_graph.py'"


def test_errors_import_nothing_of_ours_and_no_third_party():
    roots = {name.split(".")[0] for name in imports("errors.py")}
    assert roots <= sys.stdlib_module_names


@pytest.mark.parametrize("library", ALLOWED)
def test_third_parties_stay_where_they_belong(library):
    users = {
        module
        for module in MODULES
        for name in imports(module)
        if name == library or name.startswith(f"{library}.")
    }
    assert {module for module in users if not within(module, ALLOWED[library])} == set()


def test_random_numbers_of_numpy_are_drawn_by_strategies_and_experiments_only():
    for module in MODULES:
        drawn = [
            name for name in attributes(module) if name.startswith(("np.random", "numpy.random"))
        ]
        assert not drawn or within(module, ALLOWED["numpy.random"]), (module, drawn)


def test_text_is_parsed_as_sql_by_the_sql_layer_only():
    for module in MODULES:
        if within(module, {"sql/"}):
            continue
        taken = {name.split(".")[-1] for name in imports(module) if name.startswith("sqlglot")}
        called = {
            name.split(".")[-1]
            for name in attributes(module)
            if name.split(".")[0] in {"sqlglot", "exp", "parser", "tokens"}
        }
        assert not (taken | called) & PARSING, module


def test_the_privacy_boundary_imports_no_optimiser():
    for module in MODULES:
        if layer(module) == "private":
            names = set(imports(module))
            assert not any(name.startswith(("scipy.optimize", "scipy.linalg")) for name in names)


def test_no_module_is_a_drawer_for_odds_and_ends():
    stems = {Path(module).stem for module in MODULES}
    assert not stems & {"utils", "util", "common", "helpers", "helper", "misc"}


def test_the_start_of_the_program_imports_nothing_heavy():
    # Imports inside functions happen when they are needed; those at the top always do.
    names = [
        alias.name if isinstance(node, ast.Import) else node.module
        for node in tree("__init__.py").body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    ]
    heavy = {"numpy", "scipy", "opendp", "duckdb", "sqlglot"}
    assert not {name.split(".")[0] for name in names} & heavy
