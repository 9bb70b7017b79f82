"""Draws the import graph of the packages into docs/architecture.md.

``python docs/make_import_graph.py`` draws it anew, as a dependency matrix.  Packages are ordered
from the code, each after everything that it imports, so all imports are below the diagonal but the
few declared doors; a cycle has no such order and is an error.  What is imported only while a
function runs has a mark of its own.
"""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "sqlmadp"
TARGET = ROOT / "docs" / "architecture.md"
START, END = "<!-- import graph -->\n", "<!-- end of the import graph -->"

ENTRIES = {"__init__", "__main__"}
"""Modules at the top that only hand on what the packages export."""

DOORS = {"files": {"release"}, "release": {"show"}}
"""Upwards, but inside functions: ``Plan.release()`` hands itself on, a trial makes the report."""

AT_HEAD, LATER, NEVER, SELF = "x", "o", "·", "\\"


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """Yield the modules of ours that a file imports, and whether it does so at its head."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    head = {id(node) for node in tree.body}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "sqlmadp":
            for alias in node.names:
                yield _module(f"{node.module}.{alias.name}"), id(node) in head
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "sqlmadp":
                    yield _module(alias.name), id(node) in head


def module_graph() -> dict[str, dict[str, bool]]:
    """Return the imports of every module, and whether each is at its head."""
    graph: dict[str, dict[str, bool]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        own = _name(path)
        found = graph.setdefault(own, {})
        for target, head in imports(path):
            if target != own:
                found[target] = found.get(target, False) or head
    return graph


def package_graph(modules: dict[str, dict[str, bool]]) -> dict[str, dict[str, bool]]:
    """Return the same for packages, without the entries."""
    graph: dict[str, dict[str, bool]] = {}
    for own, targets in modules.items():
        package = _package(own)
        found = graph.setdefault(package, {})
        for target, head in targets.items():
            other = _package(target)
            if other != package:
                found[other] = found.get(other, False) or head
    return {
        package: {other: head for other, head in found.items() if other not in ENTRIES}
        for package, found in graph.items()
        if package not in ENTRIES
    }


def order(graph: dict[str, dict[str, bool]]) -> list[str]:
    """Return packages, each after what it imports, doors aside; a cycle is a CycleError."""
    sorter = TopologicalSorter(
        {own: found.keys() - DOORS.get(own, set()) for own, found in graph.items()}
    )
    sorter.prepare()
    names: list[str] = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready())
        names.extend(ready)
        sorter.done(*ready)
    return names


def drawing(graph: dict[str, dict[str, bool]]) -> str:
    """Return the matrix as text: one row per package, one column per package that it may import."""
    names = order(graph)
    width = max(map(len, names))
    marks = {True: AT_HEAD, False: LATER, None: NEVER}
    lines = [" " * (width + 4) + " ".join(f"{n:2}" for n in range(1, len(names) + 1))]
    for number, own in enumerate(names, 1):
        row = [SELF if own == other else marks[graph[own].get(other)] for other in names]
        lines.append(f"{own:>{width}} {number:2} " + " ".join(f"{mark:>2}" for mark in row))
    return "\n".join(lines) + "\n"


def redrawn(document: str) -> str:
    """Return the document with the drawing of the code as it is."""
    before, _, rest = document.partition(START)
    _, _, after = rest.partition(END)
    drawn = drawing(package_graph(module_graph()))
    return f"{before}{START}```text\n{drawn}```\n{END}{after}"


def _name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 2 else parts)


def _module(name: str) -> str:
    """``sqlmadp.table.rows.Rows`` is taken from the module ``sqlmadp.table.rows``."""
    parts = name.split(".")
    while len(parts) > 1 and not _exists(parts):
        parts.pop()
    return ".".join(parts) if len(parts) > 1 else "sqlmadp.__init__"


def _exists(parts: list[str]) -> bool:
    path = PACKAGE.parent.joinpath(*parts)
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def _package(module: str) -> str:
    return module.split(".")[1]


if __name__ == "__main__":
    TARGET.write_text(redrawn(TARGET.read_text(encoding="utf-8")), encoding="utf-8")
