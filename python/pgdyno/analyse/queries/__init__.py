"""Queries that are each measured by themselves."""
