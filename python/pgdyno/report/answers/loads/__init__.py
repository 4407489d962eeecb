"""What the parts of a load did: phases, fixed rates, events, groups of clients and steps."""
