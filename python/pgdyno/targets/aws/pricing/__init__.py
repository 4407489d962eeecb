"""What rented resources cost: prices, estimates, and what has accrued."""
