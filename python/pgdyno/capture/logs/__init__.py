"""Captures from the logs of a server: their files, entries, events, sessions and statements."""
