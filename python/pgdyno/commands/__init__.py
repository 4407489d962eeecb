"""The work of each command; `pgdyno.commands.arguments` reads the arguments."""
