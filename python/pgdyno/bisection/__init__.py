"""Finding the commit of a git repository that made PostgreSQL, or an extension, slower."""
