"""Logs of pgbench, which become one trial for each run."""
