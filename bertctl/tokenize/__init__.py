"""Stage 1: raw text to a vocabulary and token shards."""
