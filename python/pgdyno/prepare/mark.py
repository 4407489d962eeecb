"""The mark: what a database's comment says of the dataset in it. The only place that reads it."""

from __future__ import annotations

import json
from dataclasses import dataclass

from psycopg import sql

from pgdyno.target import Server

MARK = "pgdyno dataset "
"""Begins the database's comment that says what is loaded; JSON follows."""
MAINTENANCE = "postgres"
"""The database from which others are made, dropped and asked about."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """What is loaded into a database."""

    name: str
    scale: int

    def mark(self) -> str:
        """The database's comment once all of it is loaded."""
        return MARK + json.dumps({"name": self.name, "scale": self.scale}, sort_keys=True)


def read_mark(comment: str | None) -> Dataset | None:
    """The dataset that a database's comment says is whole in it; None when it says nothing of that."""
    if comment is None or not comment.startswith(MARK):
        return None
    try:
        said = json.loads(comment.removeprefix(MARK))
        return Dataset(str(said["name"]), int(said["scale"]))
    except (ValueError, KeyError, TypeError):
        return None


def marked_dataset(server: Server, database: str | None = None) -> Dataset | None:
    """What the mark of `database` (the workload's unless given) says; None too when there is no such database."""
    return read_mark(read_comment(server, database))


def read_comment(server: Server, database: str | None = None) -> str | None:
    """The comment of `database`, the workload's unless given. Raises TargetError."""
    with server.connect(MAINTENANCE) as connection:
        row = connection.execute(
            "SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = %s",
            [database or server.dbname],
        ).fetchone()
    return row[0] if row else None


def write_comment(server: Server, comment: str | None, database: str | None = None) -> None:
    """Replaces the comment of `database`; None removes it. Raises TargetError."""
    value = sql.SQL("NULL") if comment is None else sql.Literal(comment)
    name = sql.Identifier(database or server.dbname)
    with server.connect(MAINTENANCE) as connection:
        connection.execute(sql.SQL("COMMENT ON DATABASE {} IS {}").format(name, value))
