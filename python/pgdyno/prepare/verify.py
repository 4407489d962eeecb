"""Whether the accounts are all there: counted once for each load, by their size after that."""

from __future__ import annotations

from dataclasses import dataclass

from pgdyno.errors import TargetError
from pgdyno.target import Server

_SIZE = """
    SELECT coalesce(sum(pg_relation_size(c.oid)), 0)
    FROM pg_class c
    WHERE c.relkind = 'r' AND (c.oid = to_regclass('pgbench_accounts')
        OR c.oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = to_regclass('pgbench_accounts')))
"""


@dataclass(slots=True)
class AccountsCheck:
    """Knows the size of the accounts when they were counted last."""

    _counted_bytes: int | None = None

    def forget(self) -> None:
        """They were loaded anew: the next check counts."""
        self._counted_bytes = None

    def rows(self, server: Server, *, same_size: bool) -> int | None:
        """Exact rows the first time; None later, when their size says that they are still there.

        With `same_size` the table was copied as it is, file by file, and must have just the size that it had when
        it was counted; else it must not be smaller: pgbench's scripts never make it so. Raises TargetError,
        psycopg.Error.
        """
        with server.connect() as connection:
            row = connection.execute(_SIZE).fetchone()
            assert row is not None
            size = int(row[0])
            if self._counted_bytes is None:
                counted = connection.execute("SELECT count(*) FROM pgbench_accounts").fetchone()
                assert counted is not None
                self._counted_bytes = size
                return int(counted[0])
        if size < self._counted_bytes or (same_size and size != self._counted_bytes):
            raise TargetError(
                f"the dataset is not what was loaded: pgbench_accounts has {size:,} bytes, not {self._counted_bytes:,}"
            )
        return None
