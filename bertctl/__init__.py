"""bertctl: from raw text to a small, fast, evaluated encoder."""
