"""Plan files: found, read, merged and checked against the schema."""
