"""A PostgreSQL server that pgdyno starts: initdb, start, settings, standbys, snapshots, clean-up."""
