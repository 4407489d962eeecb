"""A PostgreSQL of our own: initdb, start, settings, standbys, snapshots, clean-up."""
