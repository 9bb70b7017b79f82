"""PEP 249: a connection that behaves like a database's, for one analyst of one plan."""
