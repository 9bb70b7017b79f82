"""Makes reference.md from the code: docstrings, options and public names as they are.

python docs/make_reference.py
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import click

from sqlmadp import compare, connect, errors
from sqlmadp.answer.result import Result
from sqlmadp.cli import main as program
from sqlmadp.dbapi.connection import Connection
from sqlmadp.dbapi.cursor import Cursor
from sqlmadp.files import plan
from sqlmadp.files import schema as declaration
from sqlmadp.files.plan import Plan
from sqlmadp.mechanism import MECHANISMS
from sqlmadp.mechanism.fairness import Outcome
from sqlmadp.release.certificate import Certificate, Standing
from sqlmadp.release.release import Release
from sqlmadp.sql.limits import Limits

TARGET = Path(__file__).with_name("reference.md")

HEAD = """\
# Reference

Made from the code by `python docs/make_reference.py`; a test compares the two.

- [Schema](#schema) · [Plan](#plan) · [Mechanisms](#mechanisms) · [SQL](#sql) ·
  [Command line](#command-line) · [Python](#python) · [Errors](#errors)
"""


def reference() -> str:
    """Return the whole page."""
    parts = [
        HEAD,
        "## Schema\n",
        _prose(declaration),
        "## Plan\n",
        _prose(plan),
        "### Limits\n",
        "\n".join(_limits()),
        "## Mechanisms\n",
        "\n".join(_mechanisms()),
        "## SQL\n",
        "DuckDB's dialect. [What is accepted and what is refused, with the code of every refusal]"
        "(sql.md) is a page of its own.\n",
        "## Command line\n",
        "\n".join(_commands(program, "sqlmadp")),
        "## Python\n",
        "\n".join(_python()),
        "## Errors\n",
        _prose(errors),
    ]
    return "\n".join(parts)


def _prose(module: object) -> str:
    """Return a docstring as Markdown: its indented parts are code already."""
    return _marked(inspect.getdoc(module) or "") + "\n"


def _marked(text: str) -> str:
    """Return the words of a docstring with code in single backticks."""
    return re.sub(r"``(.+?)``", r"`\1`", text)


def _limits() -> Iterator[str]:
    yield "| limit | default | what it bounds |\n|---|---|---|"
    source = inspect.getsource(Limits)
    for each in dataclasses.fields(Limits):
        found = re.search(rf'    {each.name}: [^\n]*\n    """(.*?)"""', source, re.DOTALL)
        words = " ".join(found[1].split()) if found else ""
        yield f"| `{each.name}` | {each.default:,} | {_marked(words)} |"
    yield ""


def _mechanisms() -> Iterator[str]:
    for name, made in MECHANISMS.items():
        words = _marked(inspect.getdoc(made) or "").replace(" [PWFM21]", "")
        yield f"**`{name}`** {words}\n"


def _commands(group: click.Group, path: str) -> Iterator[str]:
    for name, command in sorted(group.commands.items()):
        if isinstance(command, click.Group):
            yield from _commands(command, f"{path} {name}")
            continue
        arguments = [p for p in command.params if isinstance(p, click.Argument)]
        shown = " ".join(p.metavar or p.name or "" for p in arguments)
        yield f"### `{f'{path} {name} {shown}'.rstrip()}`\n"
        yield inspect.cleandoc(command.help or "") + "\n"
        options = [p for p in command.params if isinstance(p, click.Option)]
        if options:
            yield "| option | does |\n|---|---|"
            yield from (_option(option) for option in options)
            yield ""


def _option(option: click.Option) -> str:
    names = ", ".join(f"`{name}`" for name in option.opts)
    if isinstance(option.type, click.Choice):
        names += " " + " ".join(f"`{choice}`" for choice in option.type.choices)
    elif option.metavar:
        names += f" `{option.metavar}`"
    words = option.help or ""
    if isinstance(option.show_default, str):  # What it depends on, such as the machine.
        words += f" Default: {option.show_default}."
    elif option.show_default and option.default is not None:
        words += f" Default: {option.default}."
    return f"| {names} | {words.strip().replace('<', '&lt;')} |"


def _python() -> Iterator[str]:
    for name in ("connect", "compare"):
        function = {"connect": connect, "compare": compare}[name]
        yield from _function(function, f"sqlmadp.{name}")
    for kind in (Connection, Cursor, Result, Plan, Release, Certificate, Standing, Outcome):
        yield f"### {kind.__name__}\n"
        yield _marked(inspect.getdoc(kind) or "") + "\n"
        yield from _fields(kind)
        for name, member in vars(kind).items():
            if name.startswith(("_", "tpc_")) or name == "xid":
                continue  # PEP 249 names these for two-phase commits, which are refused.
            if isinstance(member, property) or type(member).__name__ == "cached_property":
                getter = getattr(member, "fget", None) or getattr(member, "func", None)
                yield f"- `.{name}`: {_first(getter)}"
            elif inspect.isfunction(member) or isinstance(member, classmethod):
                function = member.__func__ if isinstance(member, classmethod) else member
                yield f"- `.{name}{_signature(function)}`: {_first(function)}"
        yield ""


def _fields(kind: type) -> Iterator[str]:
    """Yield the public fields of a dataclass, with the words that stand below each."""
    if not dataclasses.is_dataclass(kind):
        return
    source = inspect.getsource(kind)
    for each in dataclasses.fields(kind):
        if not each.name.startswith("_"):
            found = re.search(rf'^    {each.name}: [^\n]*\n    """(.*?)"""', source, re.M | re.S)
            first = found[1].split("\n\n")[0] if found else ""
            yield f"- `.{each.name}`" + (f": {_marked(' '.join(first.split()))}" if first else "")


def _function(function: object, name: str) -> Iterator[str]:
    yield f"### `{name}{_signature(function)}`\n"
    yield _marked(inspect.getdoc(function) or "") + "\n"


def _signature(function: object) -> str:
    given = inspect.signature(function)  # type: ignore[arg-type]
    kept = [p for name, p in given.parameters.items() if name not in ("self", "cls")]
    plain = [re.sub(r"<function .*>", "...", str(parameter)) for parameter in kept]
    shown = [re.sub(r": '(.*?)'( =|$)", r": \1\2", text) for text in plain]
    star = next((n for n, p in enumerate(kept) if p.kind is p.KEYWORD_ONLY), None)
    if star is not None:
        shown.insert(star, "*")
    return f"({', '.join(shown)})"


def _first(function: object) -> str:
    """Return the first sentence of a docstring."""
    return _marked((inspect.getdoc(function) or "").split("\n\n")[0].replace("\n", " "))


if __name__ == "__main__":
    importlib.invalidate_caches()
    TARGET.write_text(reference(), encoding="utf-8")
