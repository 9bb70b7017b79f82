"""Run the command line, as ``sqlmadp`` and as ``python -m sqlmadp``.

Ctrl-C ends it without a traceback while it is still being loaded, too.
"""

import sys


def main() -> None:
    """Load the command line and run it."""
    try:
        from sqlmadp.cli import main as run  # noqa: PLC0415 - So that an interrupt is seen here.
    except KeyboardInterrupt:
        sys.exit(130)  # What shells say of a command that Ctrl-C has ended.
    run()


if __name__ == "__main__":
    main()
