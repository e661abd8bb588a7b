"""Text: readers, WordPiece, sentences, windows."""
