"""Reads every page of a restored server once: a volume from a snapshot fetches each block on its first read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import psycopg
from psycopg import sql

from pgdyno.prepare.relations import list_relations
from pgdyno.targets import Server

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
    """Reads the main forks of all tables and indexes of the workload's database and its templates.

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
            connection.execute("SET client_min_messages = warning")
            connection.execute("CREATE EXTENSION IF NOT EXISTS pg_prewarm")
        except psycopg.Error:
            tables = [sql.Identifier(each.schema, each.name) for each in relations if each.is_table]
            _by_queries(server, dbname, tables)
            return f"{len(tables)} tables by queries, no indexes: pg_prewarm is not available"
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


def _by_queries(server: Server, dbname: str, tables: Sequence[sql.Identifier]) -> None:
    def read(share: Sequence[sql.Identifier]) -> None:
        with server.connect(dbname) as connection:
            # the count must read the table instead of an index
            connection.execute("SET enable_indexonlyscan = off")
            for table in share:
                connection.execute(sql.SQL("SELECT count(*) FROM {}").format(table))

    with ThreadPoolExecutor(SESSIONS) as pool:
        list(pool.map(read, [share for at in range(SESSIONS) if (share := tables[at::SESSIONS])]))
