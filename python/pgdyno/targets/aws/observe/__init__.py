"""What Amazon reports on a rented server."""
