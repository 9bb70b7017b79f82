"""Least squares over rows: expected errors, variances and estimates."""
