"""The archive of runs and the page of a running experiment, in a browser."""
