"""Run the command line, as ``sqlmadp`` and as ``python -m sqlmadp``.

Ctrl-C ends it at once and without a traceback, while it is still being loaded, too.
"""

import os
import sys

INTERRUPTED = 130
"""The exit code that shells give to a command that Ctrl-C has ended."""


def main() -> None:
    """Load the command line and run it."""
    try:
        from sqlmadp.cli import main as run  # noqa: PLC0415 - So that an interrupt is seen here.

        run()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except SystemExit as end:
        if end.code == INTERRUPTED and not _has_workers():
            # What was interrupted has been unwound.  Libraries that were only half loaded would
            # report leaks now, and take their time.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(INTERRUPTED)
        raise


def _has_workers() -> bool:
    processes = sys.modules.get("multiprocessing.process")
    return processes is not None and bool(processes.active_children())


if __name__ == "__main__":
    main()
