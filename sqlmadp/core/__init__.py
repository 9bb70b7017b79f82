"""Strategies and mechanisms over rows of vertices, beside the core that they will replace."""
