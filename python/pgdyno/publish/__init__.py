"""Pages of stored runs: an index that ranks what can be compared, and a page for each run with its raw files."""
