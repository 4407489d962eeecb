"""Rented servers of a run: obtained before it, and what the provider reports on them after each trial."""
