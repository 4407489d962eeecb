"""Sections of what happens second by second."""
