"""The trials of a run: their sequence, one trial with its hooks and probes, and pairs that run at the same time."""
