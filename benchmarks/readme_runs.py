"""Run the README's console examples and put their output into it.

python benchmarks/readme_runs.py
"""

import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(
    r"(<!-- (?:run|sample): sqlmadp (.*?) -->\n```console\n).*?(```\n<!-- end -->)", re.DOTALL
)


def main() -> None:
    """Rewrite README.md in place; the runs happen in a copy, so that no ledger is left behind."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "copy"
        ignored = shutil.ignore_patterns(".git", ".venv", "*.ledger*", ".*_cache")
        shutil.copytree(ROOT, folder, ignore=ignored)

        def shown(match: re.Match[str]) -> str:
            command = [sys.executable, "-m", "sqlmadp", *shlex.split(match[2])]
            done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
            lines = [line.rstrip() for line in done.stdout.rstrip().splitlines()]
            return f"{match[1]}$ sqlmadp {match[2]}\n" + "\n".join(lines) + f"\n{match[3]}"

        readme = ROOT / "README.md"
        readme.write_text(BLOCK.sub(shown, readme.read_text()))


if __name__ == "__main__":
    main()
