"""A snapshot of a stopped cluster, from which a reset restores it: copied files, or a snapshot of the file system."""
