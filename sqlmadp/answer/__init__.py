"""Reconstruct, answer, shape: post-processing of released measurements."""
