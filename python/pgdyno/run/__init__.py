"""Runs trials: starts the engine, reads its events, returns the raw record."""
