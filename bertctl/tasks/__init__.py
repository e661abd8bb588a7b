"""Tasks: what an example is, how it is read, encoded and scored."""
