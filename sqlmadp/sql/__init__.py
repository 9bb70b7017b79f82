"""Analysts' text to private blocks and the SQL around them; the only user of the SQL parser."""
