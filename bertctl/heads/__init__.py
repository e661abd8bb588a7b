"""Heads: what turns hidden states into predictions."""
