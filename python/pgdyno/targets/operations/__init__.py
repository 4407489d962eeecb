"""Operations that take time: SQL and backups."""
