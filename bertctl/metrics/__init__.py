"""Metrics as sums over examples, and their intervals."""
