"""Runs the commands of a document in a folder of its own, and compares what they print.

A document marks what runs:

    <!-- run -->        the output is the same every time, to the last digit
    <!-- sample -->     the output is noisy, or has times and hashes: its shape is compared

Below the mark is a block of ``console`` (commands after ``$``, in a shell) or ``pycon`` (Python
after ``>>>``, one session per document).  All blocks of a document run in order, in a folder with
copies of ``examples/covid`` and ``schemas``.

``python tests/docs/running.py README.md docs/tutorial_*.md`` writes the outputs of today into them.
"""

import contextlib
import doctest
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"<!-- (run|sample) -->\n```(console|pycon)\n(.*?)```\n", re.DOTALL)
_COMMAND = re.compile(r"^\$ (.*(?:\n> .*)*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)


@dataclass
class Session:
    """One document's shell and Python session, in a folder of its own."""

    folder: Path
    names: dict[str, object] = field(default_factory=dict)

    def __post_init__(self):
        program = self.folder / ".bin" / "sqlmadp"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m sqlmadp "$@"\n')
        program.chmod(0o755)
        for name in ("examples/covid", "schemas"):
            ignored = shutil.ignore_patterns("*.ledger*")
            shutil.copytree(ROOT / name, self.folder / name, ignore=ignored)
        self.directory = self.folder

    def outputs(self, kind: str, text: str) -> list[tuple[str, str, str]]:
        """Return, for every command of a block, its text, the output shown and that of now."""
        run = self._shell if kind == "console" else self._python
        return list(run(text))

    def _shell(self, text: str):
        for command, shown in _COMMAND.findall(text):
            script = re.sub(r"\n> ", "\n", command)
            path = f"{self.folder / '.bin'}{os.pathsep}{os.environ['PATH']}"
            # The folder is printed last, so that `cd` holds for the next command.
            done = subprocess.run(
                ["bash", "-c", f'{script}\nprintf \'\\n%s\' "$PWD" > "{self.folder}/.pwd"'],
                cwd=self.directory,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                env=os.environ | {"PATH": path},
                check=False,
            )
            self.directory = Path((self.folder / ".pwd").read_text().strip())
            yield command, shown, done.stdout

    def _python(self, text: str):
        for example in doctest.DocTestParser().get_examples(text):
            printed = io.StringIO()
            with contextlib.chdir(self.directory), contextlib.redirect_stdout(printed):
                try:
                    exec(compile(example.source, "document", "single"), self.names)
                except Exception as error:
                    name = f"{type(error).__module__}.{type(error).__qualname__}"
                    printed.write(f"Traceback (most recent call last):\n  ...\n{name}: {error}")
            yield example.source, example.want, printed.getvalue()


def shape(text: str) -> str:
    """Return text with its numbers, times and hashes taken out, and blanks as one."""
    text = plain(text)
    text = re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(\+00:00)?", "TIME", text)
    text = re.sub(r"\b[0-9a-f]{12,64}\b", "HASH", text)
    text = re.sub(r"-?\d+(,\d{3})*(\.\d+)?(e[+-]?\d+)?", "0", text)
    return re.sub(r"[ \t]+", " ", text).strip()


def plain(text: str) -> str:
    """Return text without blanks at the ends of lines."""
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def trimmed(text: str) -> str:
    """Return text without blanks at the ends of lines, and without empty lines around it."""
    lines = "\n".join(line.rstrip() for line in text.splitlines()).strip("\n")
    return f"{lines}\n" if lines else ""


def rewritten(document: str, folder: Path) -> str:
    """Return the document with the outputs of now."""
    session = Session(folder)

    def renew(match: re.Match) -> str:
        mark, kind, text = match.groups()
        made = ""
        for command, _, got in session.outputs(kind, text):
            if kind == "console":
                made += f"$ {command}\n" + trimmed(got)
            else:
                lines = command.rstrip().split("\n")
                made += f">>> {lines[0]}\n" + "".join(f"... {line}\n" for line in lines[1:])
                made += trimmed(got)
        return f"<!-- {mark} -->\n```{kind}\n{made}```\n"

    return BLOCK.sub(renew, document)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as place:
            path = Path(name)
            path.write_text(rewritten(path.read_text(), Path(place)))
