"""What ends a run early: its time budget, its cost, the disk."""
