"""Analysts' text to queries; the only user of the SQL parser."""
