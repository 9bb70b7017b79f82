"""What one workload would measure: layouts, one search, integers; never sees data."""
