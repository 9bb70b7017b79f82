"""A terminal of 80 columns for tests, with somebody in front of it if an answer is given."""

import os
import pty
import subprocess
import sys


def on_a_terminal(*arguments, answer=None, **environment):
    """Run a command on a terminal; ``answer`` is typed in once it asks something."""
    terminal, its_end = pty.openpty()
    kept = {k: v for k, v in os.environ.items() if k not in {"NO_COLOR", "FORCE_COLOR"}}
    size = {"TERM": "xterm-256color", "COLUMNS": "80", "LINES": "40"}
    process = subprocess.Popen(
        [sys.executable, "-m", "sqlmadp", *map(str, arguments)],
        stdin=subprocess.DEVNULL if answer is None else its_end,
        stdout=its_end,
        stderr=its_end,
        env=kept | size | environment,
    )
    os.close(its_end)
    shown = b""
    while chunk := _read(terminal):
        shown += chunk
        if answer is not None and b"[y/N]" in shown:
            os.write(terminal, f"{answer}\n".encode())
            answer = None
    os.close(terminal)
    return process.wait(), shown.decode()


def _read(terminal):
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux says so when the other end is closed.
        return b""
