"""Processes that can be interrupted, whatever the process that runs the tests ignores."""

import signal
import subprocess


def started(command, **options):
    """Start a command that heeds Ctrl-C, as one that was started from a terminal does."""
    return subprocess.Popen(command, preexec_fn=_heed, **options)  # noqa: PLW1509 - No threads.


def _heed():
    signal.signal(signal.SIGINT, signal.SIG_DFL)
