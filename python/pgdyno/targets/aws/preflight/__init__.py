"""Checks before the first request that creates something: what Amazon would refuse, all at once, at no cost."""
