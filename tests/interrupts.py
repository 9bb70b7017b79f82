"""Processes that can be interrupted, whatever the process that runs the tests ignores."""

import re
import signal
import subprocess
import time
from pathlib import Path


def started(command, **options):
    """Start a command that heeds Ctrl-C, as one that was started from a terminal does."""
    return subprocess.Popen(command, preexec_fn=_heed, **options)  # noqa: PLW1509 - No threads.


def _heed():
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def wait_until_heeding(process):
    """Wait until a process has a handler of Ctrl-C, which a loaded machine may delay."""
    status = Path(f"/proc/{process.pid}/status")
    while status.exists() and process.poll() is None:
        caught = re.search(r"^SigCgt:\s*([0-9a-f]+)", status.read_text(), re.MULTILINE)
        if caught is None or int(caught[1], 16) >> (signal.SIGINT - 1) & 1:
            return
        time.sleep(0.01)
