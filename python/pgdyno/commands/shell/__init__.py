"""Arguments of the shell: a module a family of commands, which loads what a command needs only when it is called."""
