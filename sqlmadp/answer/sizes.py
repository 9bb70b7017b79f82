"""Sizes and tolerances of answers: every number that decides something, and what it rests on.

Times are CPU seconds on one core; the commands that print them are in ``benchmarks/``.
"""

# Answers to linear pieces.

DIGITS = 13
"""Keep this many digits of the largest answer of a piece: least squares gets two more right, and
what is left beyond them would break ties of MODE and RANK."""

NEGLIGIBLE = 1e-12
"""Take a sum of squared deviations below this part of the sum of squares to be 0: no digit of the
difference is left."""

# Errors that are not known exactly.

DRAWS = 60
"""Simulate this many releases: the standard error of an error is then 1 / sqrt(120), or 9%."""

MIN_DRAWS = 20
"""Simulate no fewer releases than this, however large the result: 16%."""

SIMULATED_ROWS = 1_000_000
"""Simulate fewer releases where they would have more rows than this: 1.3 s for AVG of 20,000 groups
in 50 releases."""

MAX_RUNS = 400
"""Run a statement with windows, joins or subqueries once per answer, for its exact errors, up to
this many answers: 2 ms each, of which DuckDB takes half to fill its tables."""

INTERVAL = 2.04
"""A 95% interval is the answer plus and minus this many standard errors.  Single Laplace noise lies
inside with probability 0.944, and a sum of many, which is nearly normal, with 0.959."""

# Post-processing.

MAX_CELLS = 2000
"""Process several tables while they have at most this many cells in all: two of 1,968 cells take
0.2 s and 200 MB without negatives, 0.6 s with whole counts too, and 1.4 s for all simulations."""

MAX_OF_ONE = 50_000
"""Process at most this many cells of a single table that holds all others: 1.7 s for all
simulations."""

MAX_ENTRIES = 2**24
"""Write out products of at most this many numbers: 200 MB."""

HEAVY = 1e4
"""Give whole counts this many times the weight of what was measured, so that they are met; it
enters by its square, which leaves 8 of 16 digits for what was measured."""

TRIES, MAX_GUESSES = 5, 500
"""Guess what is at zero at most this often: the first number without fewer wrong signs before they
are changed one at a time, the second in all.  Tables of 191 to 50,250 cells took 3 to 9."""

CLOSE_CELL = 1e-7
"""Let a cell's sign be wrong by this much of a measured value; noise is far more."""

CLOSE_VERTEX = 1e-9
"""Let a vertex's sign be wrong by this many standard errors."""

SOLVED = 1e-12
"""End conjugate gradients when this part of the right side is left."""

ROUNDING = 10
"""Take no sign to be wrong within this many times what conjugate gradients leave: with hardly any
noise many cells are at zero, to either side of it by rounding alone."""

MAX_STEPS = 10
"""Let conjugate gradients take at most this many steps per cell: one would do, but for rounding."""

EVEN = 3e-4
"""Give every cell this weight beside the least weight of what was measured: it enters by its
square, and decides only what was not measured."""

SEEN = 4e-5
"""Give every cell no less than this beside the largest weight: a solver takes what adds 1e-10 of
the information (`solve.inverse.DEPENDENT`) for rounding.  The weights of one plan differed 54,000
times."""

EVENED = 3
"""Solve this often, so that the weight of every cell is overruled where something was measured:
each time leaves a part of 1e-7 of it."""

SOFT = 1e-12
"""Add this to the diagonal of the pulls on vertices, which may depend on one another."""

# What is shown.

SHOWN_ROWS = 20
"""Show this many rows of a long table."""

SHOWN_VALUES = 5
"""List at most this many values of a column in a message."""
