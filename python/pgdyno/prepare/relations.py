"""Lists tables and indexes of the workload's database, for prewarming and cache shares."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from pgdyno.targets import Server

SEGMENT_BYTES = 1 << 30
"""Size of a relation's segment files in a default build."""

_LIST = """
    SELECT c.oid::bigint, n.nspname, c.relname, c.relkind::text, pg_relation_filenode(c.oid)::bigint,
           pg_relation_filepath(c.oid), pg_relation_size(c.oid, 'main')
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'm', 't', 'i') AND c.relpersistence <> 't'
      AND c.oid >= 16384 AND n.nspname NOT IN ('pg_catalog', 'information_schema')
    ORDER BY c.relkind = 'i', pg_relation_size(c.oid, 'main') DESC, c.oid
"""
"""Toast tables are in namespace pg_toast. Indexes are last, because what is read last stays in memory longest."""


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
    """Path of its first file, relative to the data directory."""
    main_bytes: int

    @property
    def is_table(self) -> bool:
        """Whether queries can select from it."""
        return self.kind in "rm"

    def files(self, data_directory: Path) -> list[Path]:
        """Yields the files of its main fork."""
        segments = max(1, -(-self.main_bytes // SEGMENT_BYTES))
        first = data_directory / self.path
        return [first, *(first.with_name(f"{first.name}.{number}") for number in range(1, segments))]


def list_relations(connection: psycopg.Connection[tuple[Any, ...]]) -> list[Relation]:
    """Returns all user relations: tables by size, then indexes by size. Raises psycopg.Error."""
    return [Relation(*row) for row in connection.execute(_LIST).fetchall()]


def dataset_relations(server: Server) -> list[Relation]:
    """Returns the same over a new connection. Raises TargetError, psycopg.Error."""
    with server.connect() as connection:
        return list_relations(connection)
