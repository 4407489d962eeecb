"""`replay`: the statements of a capture."""
