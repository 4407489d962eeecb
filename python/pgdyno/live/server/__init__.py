"""Serves the pages: the HTTP server, its limits, and the checks of each request."""
