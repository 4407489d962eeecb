"""`queries = ["q/*.sql"]`: SQL files, each measured by itself."""
