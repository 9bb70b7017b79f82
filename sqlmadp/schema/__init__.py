"""What values may exist: the declared, public domain."""
