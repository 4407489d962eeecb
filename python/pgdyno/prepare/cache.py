"""Lists the dataset's relations, prewarms them, drops caches, and reads every page for a first touch."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import psycopg
from psycopg import sql

from pgdyno.errors import TargetError
from pgdyno.plan.checks.reset import DROP_CACHES
from pgdyno.plan.model import Reset
from pgdyno.targets import Server
from pgdyno.targets.cluster import file_cache
from pgdyno.targets.cluster.file_cache import cached_share
from pgdyno.targets.home import target_errors
from pgdyno.units import quantity

_PAGE_CACHE_ONLY = b"1\n"
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
        """Yield the files of its main fork."""
        segments = max(1, -(-self.main_bytes // SEGMENT_BYTES))
        first = data_directory / self.path
        return [first, *(first.with_name(f"{first.name}.{number}") for number in range(1, segments))]


def list_relations(connection: psycopg.Connection[tuple[Any, ...]]) -> list[Relation]:
    """Return all user relations: tables by size, then indexes by size. Raises psycopg.Error."""
    return [Relation(*row) for row in connection.execute(_LIST).fetchall()]


def dataset_relations(server: Server) -> list[Relation]:
    """Return the same over a new connection. Raises TargetError, psycopg.Error."""
    with server.connect() as connection:
        return list_relations(connection)


def drop_cache(server: Server, what: Literal["files", "machine"]) -> str:
    """Sync the cluster's files, then make the operating system drop them, or its whole cache.

    Returns a description. Raises TargetError.
    """
    count = file_cache.drop_cache(server.data_directory)
    if what == "files":
        return f"{quantity(count, 'file')} of the cluster"
    # also syncs other file systems, whose dirty pages would stay in the cache
    os.sync()
    with target_errors(DROP_CACHES, "cannot write"):
        DROP_CACHES.write_bytes(_PAGE_CACHE_ONLY)
    return "the machine's whole cache"


def shared_buffers_share(server: Server, relations: Sequence[Relation]) -> float | None:
    """Return the share of the relations' main forks in shared buffers.

    Uses pg_buffercache; returns None if that is not installed. The extension is created in the maintenance database, so
    that the dataset stays unchanged.
    """
    total = sum(relation.main_bytes for relation in relations)
    if total == 0:
        return None
    with server.connect(server.maintenance) as connection:
        try:
            connection.execute("SET client_min_messages = warning")
            connection.execute("CREATE EXTENSION IF NOT EXISTS pg_buffercache")
        except (psycopg.errors.UndefinedFile, psycopg.errors.FeatureNotSupported):
            return None
        row = connection.execute(
            "SELECT count(*) * current_setting('block_size')::bigint FROM pg_buffercache WHERE relforknumber = 0"
            " AND reldatabase = (SELECT oid FROM pg_database WHERE datname = %s) AND relfilenode::bigint = ANY(%s)",
            [server.dbname, [relation.filenode for relation in relations]],
        ).fetchone()
    assert row is not None
    return min(int(row[0]) / total, 1.0)


def page_cache_share(data_directory: Path, relations: Sequence[Relation]) -> float | None:
    """Return the share of the relations' main forks in the page cache; None without permission."""
    return cached_share(file for relation in relations for file in relation.files(data_directory))


INSTALL = 'install PostgreSQL\'s contrib modules for this server, or set reset.prewarm to "read"'


def check_extension(target: str, server: Server, reset: Reset) -> None:
    """Raise TargetError if `target` lacks the extension that `reset` needs, before anything is loaded.

    Raises psycopg.Error.
    """
    if reset.prewarm == "pg_prewarm" and not _has_prewarm(server):
        message = f"target {target}: cannot prewarm with pg_prewarm: the server does not have this extension"
        raise TargetError(message, hint=INSTALL)


def _has_prewarm(server: Server) -> bool:
    query = "SELECT 1 FROM pg_available_extensions WHERE name = 'pg_prewarm'"
    with server.connect() as connection:
        return connection.execute(query).fetchone() is not None


def prewarm_with_extension(server: Server) -> str:
    """Load the main forks of all tables and indexes into shared buffers by pg_prewarm; return the number of blocks.

    Raises TargetError if the extension is not installed; psycopg.Error.
    """
    with server.connect() as connection:
        try:
            _create_prewarm(connection)
        except (psycopg.errors.UndefinedFile, psycopg.errors.FeatureNotSupported) as error:
            raise TargetError(f"cannot prewarm with pg_prewarm: {str(error).splitlines()[0]}", hint=INSTALL) from error
        blocks = 0
        for relation in list_relations(connection):
            row = connection.execute("SELECT pg_prewarm(%s::oid::regclass, 'buffer', 'main')", [relation.oid])
            blocks += row.fetchone()[0]  # type: ignore[index]
    return f"{blocks:,} blocks"


def _create_prewarm(connection: psycopg.Connection[tuple[Any, ...]]) -> None:
    # suppresses the notice that it already exists
    connection.execute("SET client_min_messages = warning")
    connection.execute("CREATE EXTENSION IF NOT EXISTS pg_prewarm")


def prewarm(server: Server) -> str:
    """Read all tables and indexes into shared buffers; without pg_prewarm, the tables alone.

    Raises TargetError, psycopg.Error.
    """
    return prewarm_with_extension(server) if _has_prewarm(server) else prewarm_by_reading(server)


def prewarm_by_reading(server: Server) -> str:
    """Read every table completely by a query; tables above a quarter of shared buffers pass through a small ring.

    Reads no indexes. Raises TargetError, psycopg.Error.
    """
    return _read_tables(server, server.dbname, dataset_relations(server), sessions=1)


SESSIONS = 8
"""Parallel sessions: fetching a block takes long, and many fetches run in parallel."""
PIECE_BLOCKS = 16_384
"""Blocks per query, 128 MB in a default build."""
_TEMPLATE = "_template"
_THERE = "SELECT datname FROM pg_database WHERE datname = ANY (%s) AND datallowconn ORDER BY datname"


@dataclass(frozen=True, slots=True)
class _Piece:
    oid: int
    first: int
    last: int


def read_every_page(server: Server) -> str:
    """Read the main forks of all tables and indexes of the workload's database and its templates.

    Uses pg_prewarm, and drops it if it was not installed before; a server without it reads tables by queries, and no
    indexes. Returns a description. Raises TargetError, psycopg.Error.
    """
    with server.connect(server.maintenance) as connection:
        wanted = [server.dbname, f"{server.dbname}{_TEMPLATE}"]
        there = [str(name) for (name,) in connection.execute(_THERE, [wanted]).fetchall()]
    return "; ".join(f"{name}: {_read(server, name)}" for name in there) or "the snapshot lacks this database"


def _read(server: Server, dbname: str) -> str:
    with server.connect(dbname) as connection:
        had = connection.execute("SELECT 1 FROM pg_extension WHERE extname = 'pg_prewarm'").fetchone() is not None
        relations = list_relations(connection)
        try:
            _create_prewarm(connection)
        except psycopg.Error:
            read = _read_tables(server, dbname, relations, SESSIONS)
            return f"{read} by queries, no indexes: pg_prewarm is not available"
        size = int(connection.execute("SELECT current_setting('block_size')::int").fetchone()[0])  # type: ignore[index]
        pieces = [piece for each in relations for piece in _pieces(each.oid, each.main_bytes // size)]
        blocks = _by_pieces(server, dbname, pieces)
        if not had:
            connection.execute("DROP EXTENSION pg_prewarm")
    return f"{blocks:,} blocks"


def _pieces(oid: int, blocks: int) -> Iterator[_Piece]:
    for first in range(0, blocks, PIECE_BLOCKS):
        yield _Piece(oid, first, min(first + PIECE_BLOCKS, blocks) - 1)


def _by_pieces(server: Server, dbname: str, pieces: Sequence[_Piece]) -> int:
    def read(share: Sequence[_Piece]) -> int:
        blocks = 0
        with server.connect(dbname) as connection:
            for each in share:
                # 'read' bypasses shared buffers, whose contents [reset] determines
                statement = "SELECT pg_prewarm(%s::oid::regclass, 'read', 'main', %s, %s)"
                row = connection.execute(statement, [each.oid, each.first, each.last]).fetchone()
                blocks += row[0] if row is not None else 0
        return blocks

    with ThreadPoolExecutor(SESSIONS) as pool:
        return sum(pool.map(read, [share for at in range(SESSIONS) if (share := pieces[at::SESSIONS])]))


def _read_tables(server: Server, dbname: str, relations: Sequence[Relation], sessions: int) -> str:
    tables = [sql.Identifier(each.schema, each.name) for each in relations if each.is_table]

    def read(share: Sequence[sql.Identifier]) -> None:
        with server.connect(dbname) as connection:
            # the count must read the table instead of an index
            connection.execute("SET enable_indexonlyscan = off")
            for table in share:
                connection.execute(sql.SQL("SELECT count(*) FROM {}").format(table))

    with ThreadPoolExecutor(sessions) as pool:
        list(pool.map(read, [share for at in range(sessions) if (share := tables[at::sessions])]))
    return quantity(len(tables), "table")
