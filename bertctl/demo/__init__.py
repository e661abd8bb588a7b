"""Real text and true labels that every Python installation carries."""
