"""Stage 7: what the layers know."""
