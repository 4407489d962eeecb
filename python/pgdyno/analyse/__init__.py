"""Run folders in, values and warnings out: pure functions that never print."""
