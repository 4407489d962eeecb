"""Sweeps: what a plan says of them, and the points that they come to."""
