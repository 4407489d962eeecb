"""The search for settings: explore, race, confirm, and put back each line that makes no difference."""
