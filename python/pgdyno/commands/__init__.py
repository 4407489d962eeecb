"""What each command of the shell does; `pgdyno.cli` only reads arguments."""
