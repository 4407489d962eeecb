"""kind = "pool": your own host, which pgdyno borrows over SSH for a run, cleans up and gives back."""
