"""Stage 6: scores with intervals, and predictions."""
