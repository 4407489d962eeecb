"""A time budget: how long a plan takes, and a smaller plan that fits."""
