"""The sign in a database that pgdyno made: a schema whose comment says so, with the database's name.

It is in the database, so that a copy made of a template has it at once; and it holds the name, so that a copy under
another name, or a database that was renamed, is somebody's.
"""

from __future__ import annotations

from psycopg import sql

from pgdyno.errors import TargetError
from pgdyno.targets.address import Address
from pgdyno.targets.dsn.schema import DsnTarget

SCHEMA = "pgdyno"


def is_signed(address: Address, dbname: str) -> bool:
    """Whether pgdyno made the database. Raises TargetError when it cannot be connected to."""
    with address.connect(dbname) as connection:
        row = connection.execute(
            "SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = %s", [SCHEMA]
        ).fetchone()
    return row is not None and row[0] == _text(dbname)


def sign(address: Address, dbname: str) -> None:
    """Signs a database that was made just now. Raises TargetError, psycopg.Error."""
    with address.connect(dbname) as connection, connection.transaction():
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(SCHEMA)))
        comment = sql.SQL("COMMENT ON SCHEMA {} IS {}")
        connection.execute(comment.format(sql.Identifier(SCHEMA), sql.Literal(_text(dbname))))
        comment = sql.SQL("COMMENT ON DATABASE {} IS {}")
        connection.execute(comment.format(sql.Identifier(dbname), sql.Literal("made by pgdyno")))


def check_signed(address: Address, spec: DsnTarget) -> bool:
    """Whether pgdyno made the database of `spec`, which is there.

    Raises TargetError when it did not, and `spec` does not allow that.
    """
    if is_signed(address, spec.database):
        return True
    if not spec.allow_existing:
        raise TargetError(
            f"cannot use the database {spec.database}: pgdyno did not make it",
            hint="name another by database, drop it, or let pgdyno replace tables in it by allow_existing = true",
        )
    return False


def _text(dbname: str) -> str:
    return f"pgdyno made the database {dbname} and may drop it"
