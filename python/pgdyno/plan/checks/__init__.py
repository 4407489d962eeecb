"""What a plan's schema cannot see: whether its sections suit each other, its targets and its question."""
