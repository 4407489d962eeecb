"""A trial over time: its seconds, its dips, and what the probe saw during them."""
