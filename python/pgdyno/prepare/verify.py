"""Checks that a restored dataset is complete: by count once per load, later by size."""

from __future__ import annotations

from dataclasses import dataclass

from pgdyno.errors import TargetError
from pgdyno.prepare.consistency import Books, Scope, read_books, read_small_counts
from pgdyno.targets import Server

_SIZE = """
    SELECT coalesce(sum(pg_relation_size(c.oid)), 0)
    FROM pg_class c
    WHERE c.relkind = 'r' AND (c.oid = to_regclass('pgbench_accounts')
        OR c.oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = to_regclass('pgbench_accounts')))
"""


@dataclass(slots=True)
class DatasetCheck:
    """Remembers the counted size of one dataset's accounts; each load needs a new instance."""

    _counted_bytes: int | None = None

    def rows(self, server: Server, scope: Scope, expected: Books | None, *, same_size: bool) -> dict[str, int]:
        """Exact rows by table: of all tables the first time, later of all but the accounts.

        The first time sums are read, too, where `scope` is full, and must be those of `expected`. Later the
        accounts go by the size of their table. With `same_size` it was copied as it is and must have just the
        size that it had when it was counted; else it must not be smaller: pgbench's scripts never make it so.
        Raises TargetError, psycopg.Error.
        """
        size = _accounts_bytes(server)
        if self._counted_bytes is None:
            rows = _all_rows(server, scope, expected)
            self._counted_bytes = size
            return rows
        if size < self._counted_bytes or (same_size and size != self._counted_bytes):
            raise TargetError(
                f"the dataset differs from the loaded one: pgbench_accounts has {size:,} bytes, not "
                f"{self._counted_bytes:,}"
            )
        return read_small_counts(server)


def _all_rows(server: Server, scope: Scope, expected: Books | None) -> dict[str, int]:
    if scope != "full":
        with server.connect() as connection:
            row = connection.execute("SELECT count(*) FROM pgbench_accounts").fetchone()
        assert row is not None
        return {"pgbench_accounts": int(row[0]), **read_small_counts(server)}
    books = read_books(server)
    if expected is not None and books.sums != expected.sums:
        told = ", ".join(f"{name} {total:,}" for name, total in books.sums.items())
        wanted = ", ".join(f"{name} {total:,}" for name, total in expected.sums.items())
        raise TargetError(f"the dataset differs from the loaded one: its sums are {told}, not {wanted}")
    return books.rows


def _accounts_bytes(server: Server) -> int:
    with server.connect() as connection:
        row = connection.execute(_SIZE).fetchone()
    assert row is not None
    return int(row[0])
