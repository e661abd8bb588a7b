"""Stage 5: a teacher to a smaller student."""
