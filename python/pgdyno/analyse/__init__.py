"""Analyses run folders: pure functions that return values and warnings and never print."""
