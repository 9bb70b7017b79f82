"""What people and programs read: text, JSON, progress and the report."""
