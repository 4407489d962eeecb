"""Imports output of other tools, and published tables, as trials of ordinary run folders."""
