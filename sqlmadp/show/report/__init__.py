"""The report: one page that explains a release to people who do not read code.

Before a release it is a preview without rows; afterwards it holds the rows too.  Making it reads no
record and spends nothing.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from sqlmadp.errors import OperationalError
from sqlmadp.files.plan import Plan
from sqlmadp.release.release import Progress
from sqlmadp.show.report.content import gather
from sqlmadp.show.report.page import page


def write_report(
    plan: Plan,
    path: Path,
    *,
    analyst: str | None = None,
    mechanisms: Sequence[str] = (),
    progress: Progress = lambda _: None,
) -> None:
    """Write the report of a plan to ``path``, whole or not at all.

    With an analyst it holds what that analyst may see, and nothing else.  The plan's mechanism is
    shown by itself, or compared with the ones named.
    """
    text = page(gather(plan, analyst, progress, mechanisms), version("sqlmadp"))
    aside = path.with_name(f".{path.name}.part")
    try:
        aside.write_text(text, encoding="utf-8")
        os.replace(aside, path)
    except OSError as error:
        raise OperationalError(
            f"cannot write {str(path)!r} ({error.strerror}); name another --out"
        ) from None
