"""`pgdyno ab`, `compare` and `gate`."""
