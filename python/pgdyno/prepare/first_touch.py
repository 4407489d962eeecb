"""Reads every page of a restored server once: a volume from a snapshot fetches each block when it is first touched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import psycopg
from psycopg import sql

from pgdyno.prepare.relations import list_relations
from pgdyno.targets import Server

SESSIONS = 8
"""That read at once: a block that is fetched from far takes long, and many do at the same time."""
PIECE_BLOCKS = 16_384
"""Blocks a piece, 128 MB as servers are built by default."""
_TEMPLATE = "_template"
_THERE = "SELECT datname FROM pg_database WHERE datname = ANY (%s) AND datallowconn ORDER BY datname"


@dataclass(frozen=True, slots=True)
class _Piece:
    oid: int
    first: int
    last: int


def read_every_page(server: Server) -> str:
    """Main forks of all tables and indexes of the workload's database, and of what it is copied from.

    By pg_prewarm, which goes again where it was not there before; where the server has none, tables are read by
    queries and indexes are not. What was read, in words. Raises TargetError, psycopg.Error.
    """
    with server.connect(server.maintenance) as connection:
        wanted = [server.dbname, f"{server.dbname}{_TEMPLATE}"]
        there = [str(name) for (name,) in connection.execute(_THERE, [wanted]).fetchall()]
    return "; ".join(f"{name}: {_read(server, name)}" for name in there) or "the snapshot has no such database"


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
            return f"{len(tables)} tables by queries, no indexes: there is no pg_prewarm"
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
                # past shared buffers: what is in them is a matter of [reset]
                statement = "SELECT pg_prewarm(%s::oid::regclass, 'read', 'main', %s, %s)"
                row = connection.execute(statement, [each.oid, each.first, each.last]).fetchone()
                blocks += row[0] if row is not None else 0
        return blocks

    with ThreadPoolExecutor(SESSIONS) as pool:
        return sum(pool.map(read, [share for at in range(SESSIONS) if (share := pieces[at::SESSIONS])]))


def _by_queries(server: Server, dbname: str, tables: Sequence[sql.Identifier]) -> None:
    def read(share: Sequence[sql.Identifier]) -> None:
        with server.connect(dbname) as connection:
            # the count is wanted of the table, not of an index that knows it, too
            connection.execute("SET enable_indexonlyscan = off")
            for table in share:
                connection.execute(sql.SQL("SELECT count(*) FROM {}").format(table))

    with ThreadPoolExecutor(SESSIONS) as pool:
        list(pool.map(read, [share for at in range(SESSIONS) if (share := tables[at::SESSIONS])]))
