"""The curator's files: plan, schema, public tables, statements handed in, drafts, an example.

Every size and time of this package is below.
"""

LARGEST_COLUMN = 2**24
"""Refuse a column of more values than this: one number per value takes 128 MiB already."""

MOST_DECIMALS = 9
LARGEST_STEP = 2**50
"""Refuse more decimals, or more steps of the last one from 0: beyond, floating-point numbers round
to others."""

MOST_RECORDS = 1_000_000
"""Refuse units that may own more records: the noise grows with them."""

MOST_PUBLIC_ROWS = 1_000_000
"""Refuse public tables of more rows, which are read into memory."""

NOTED_VALUES = 5
"""List at most this many values in a note."""

WAIT_SECONDS = 60.0
PAUSE_SECONDS = 0.01
"""Wait this long for the lock of a plan's folder, and ask for it this often."""

TOML_DEPTH = 4
"""Keep the lines of keys down to this depth: beyond any allowed key, short of deep recursion."""
