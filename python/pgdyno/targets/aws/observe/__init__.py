"""What Amazon's services report on a rented server."""
