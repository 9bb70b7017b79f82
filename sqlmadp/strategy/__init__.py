"""What one workload would measure; never sees data."""
