"""What everyone measures together; never sees data."""
