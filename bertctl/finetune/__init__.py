"""Stage 4: a pretrained encoder to a task."""
