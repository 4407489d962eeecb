"""How many instructions a transaction costs the server's process, counted by Valgrind or by the processor."""
