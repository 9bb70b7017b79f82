"""What people and programs read: text, JSON, progress and the report.

Every size of this package is below.
"""

MOST_BARS = 26
MOST_ORDERED = 12
"""Draw a bar with a name for each of at most this many groups, or of at most this many numbers or
dates, which above it are drawn as a course of thin columns."""

MOST_COLUMNS = 370
"""Draw a thin column for each of at most this many groups, such as the days of a year; no chart
above."""

MOST_DOWN, MOST_ACROSS = 60, 24
"""Draw a heat map of at most this many groups down and across."""

SHOWN_ROWS = 100
"""Put at most this many rows of a table into the page; the file to download has all."""

MAX_CSV_BYTES = 1 << 20
"""Put a table's file into the page only below this size, so that the page stays small enough to
open and to send; Chromium downloads links of five times that."""

MOST_NAMED = 6
"""Name the columns that a sentence is about if there are at most this many."""

SHOWN_HASH = 12
"""Show this many digits of a hash in the header; all of them are further down."""

WIDEST = 400
"""Make a table at most this wide where there is no terminal: nothing is cut off in a file."""

GAP = 2
"""Put this many blanks between two columns of a table on a terminal."""

CHART_WIDTH = 350
CHART_LETTER, CHART_CAPITAL = 7.2, 9.2
"""Draw charts this many units wide, of which a letter takes this many in a font of wide letters."""

PHONE, LETTER, BOLD, SMALL, PADDING = 305, 8.6, 10, 7, 10
"""Fold a table on a phone of 360 pixels when it needs more than the first of these: a letter takes
8.6 pixels in a wide font, 10 if it is bold and 7 if it is small, and a column 10 besides."""
