"""Tables and indexes of the workload's database: what is prewarmed, and where its pages are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from pgdyno.targets import Server

SEGMENT_BYTES = 1 << 30
"""Size of a relation's files but the last, as servers are built by default."""

_LIST = """
    SELECT c.oid::bigint, n.nspname, c.relname, c.relkind::text, pg_relation_filenode(c.oid)::bigint,
           pg_relation_filepath(c.oid), pg_relation_size(c.oid, 'main')
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'm', 't', 'i') AND c.relpersistence <> 't'
      AND c.oid >= 16384 AND n.nspname NOT IN ('pg_catalog', 'information_schema')
    ORDER BY c.relkind = 'i', pg_relation_size(c.oid, 'main') DESC, c.oid
"""
"""Toast tables are in namespace pg_toast. Indexes come last: what is read last stays longest."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A table or index that has a file."""

    oid: int
    schema: str
    name: str
    kind: str
    """pg_class.relkind."""
    filenode: int
    path: str
    """Of its first file, below the data directory."""
    main_bytes: int

    @property
    def is_table(self) -> bool:
        """Whether people can select from it."""
        return self.kind in "rm"

    def files(self, data_directory: Path) -> list[Path]:
        """Files of its main fork."""
        segments = max(1, -(-self.main_bytes // SEGMENT_BYTES))
        first = data_directory / self.path
        return [first, *(first.with_name(f"{first.name}.{number}") for number in range(1, segments))]


def list_relations(connection: psycopg.Connection[tuple[Any, ...]]) -> list[Relation]:
    """Everything that is not the server's own: tables by size, then indexes by size. Raises psycopg.Error."""
    return [Relation(*row) for row in connection.execute(_LIST).fetchall()]


def dataset_relations(server: Server) -> list[Relation]:
    """The same, over a connection of its own. Raises TargetError, psycopg.Error."""
    with server.connect() as connection:
        return list_relations(connection)
