"""Private blocks to predicate vectors over the domain, evaluated by DuckDB over declared values."""
