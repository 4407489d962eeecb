"""What kinds of rented servers have in common: the provider, the rental and its journal, costs, packages."""
