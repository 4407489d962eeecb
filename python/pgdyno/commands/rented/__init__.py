"""`pgdyno target` and `reap`: servers that pgdyno rents, and settings that it must restore."""
