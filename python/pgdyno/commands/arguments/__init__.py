"""Arguments of the command line, one module per family of commands. A command imports its code when it is called."""
