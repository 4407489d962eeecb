"""Searches in place of a grid: what was measured says what is measured next."""
