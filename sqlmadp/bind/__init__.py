"""Trees to private blocks, and their predicate vectors over the domain, evaluated by DuckDB."""
