"""Analysts' text to trees that are checked against the allow-list; the only user of the parser."""
