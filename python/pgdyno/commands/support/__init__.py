"""Code of commands that is too long for the module of its command, or that several commands use."""
