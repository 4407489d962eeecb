"""The pages of stored runs and the page of a running experiment, in a browser."""
