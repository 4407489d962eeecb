"""A run in a terminal."""
