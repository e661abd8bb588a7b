"""Stage 2: token shards to index records of training examples."""
