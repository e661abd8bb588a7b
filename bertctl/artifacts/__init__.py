"""What lies on disk: manifests, whole folders, locks, shards, checkpoints."""
