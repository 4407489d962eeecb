"""The archive of runs and the page of a running one, in a browser."""
