"""Groups of clients, steps, and the loads that a trial of them has."""
