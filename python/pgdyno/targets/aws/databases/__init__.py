"""Servers of RDS and Aurora."""
