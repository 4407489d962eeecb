"""SQL scripts in pgbench's language."""
