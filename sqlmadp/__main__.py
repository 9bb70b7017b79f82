"""Run the command line as ``python -m sqlmadp``."""

from sqlmadp.cli import main

if __name__ == "__main__":
    main()
