"""Datasets that a plan's own SQL files make: `workload.dataset = { name, sql, variables }`."""
