"""Per-layer key/value caches in blocks of one pool, and the transaction that publishes their rows."""
