"""Queries as matrices, and the coordinates in which all of them are small."""
