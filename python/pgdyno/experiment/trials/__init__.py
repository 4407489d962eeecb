"""The trials of a run: their course, one trial with its hooks and probes, and pairs that run at the same time."""
