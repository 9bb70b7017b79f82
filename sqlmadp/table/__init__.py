"""What values may exist, and functions of them: partitions into vertices, and rows over these."""
