"""The work of each command; `pgdyno.commands.shell` reads the arguments."""
