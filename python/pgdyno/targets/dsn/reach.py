"""Examines a server over the network before anything runs, and marks databases that pgdyno creates.

The ownership comment is the comment of a schema in the database, and contains the database's name. A copy made from a
template has the comment from the start. A copy with another name, or a renamed database, does not count as pgdyno's.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict
from pydantic import TypeAdapter

from pgdyno.errors import TargetError
from pgdyno.plan.checks.targets import Abilities
from pgdyno.records.capture import ServerIdentity
from pgdyno.targets.cluster.installation import OLDEST_MAJOR
from pgdyno.targets.cluster.settings import check_contexts
from pgdyno.targets.connection import MAINTENANCE, USE_FILE, Address, resolved_address
from pgdyno.targets.direct_session import PoolerError
from pgdyno.targets.dsn.schema import DsnTarget
from pgdyno.targets.lock import HINT, Use, WhenBusy, server_holder
from pgdyno.targets.poolers.load_path import LoadPath, find_load_path
from pgdyno.targets.response_limits import limit_answers
from pgdyno.targets.server_identity import server_identity

SCHEMA = "pgdyno"


def is_signed(address: Address, dbname: str) -> bool:
    """Return whether pgdyno created the database. Raises TargetError if it cannot connect."""
    with address.connect(dbname) as connection:
        row = connection.execute(
            "SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = %s", [SCHEMA]
        ).fetchone()
    return row is not None and row[0] == _text(dbname)


def create_signed(connection: psycopg.Connection[tuple[Any, ...]], address: Address, dbname: str) -> None:
    """Create a database with the ownership comment, or none. Raises TargetError, psycopg.Error."""
    connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(dbname)))
    try:
        _sign(address, dbname)
    except BaseException:
        # without its ownership comment, the next run would take it for another's
        with suppress(psycopg.Error):
            connection.execute(sql.SQL("DROP DATABASE {}").format(sql.Identifier(dbname)))
        raise


def _sign(address: Address, dbname: str) -> None:
    with address.connect(dbname) as connection, connection.transaction():
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(SCHEMA)))
        comment = sql.SQL("COMMENT ON SCHEMA {} IS {}")
        connection.execute(comment.format(sql.Identifier(SCHEMA), sql.Literal(_text(dbname))))
        comment = sql.SQL("COMMENT ON DATABASE {} IS {}")
        connection.execute(comment.format(sql.Identifier(dbname), sql.Literal("made by pgdyno")))


def check_signed(address: Address, spec: DsnTarget) -> bool:
    """Return whether pgdyno created the existing database of `spec`.

    Raises TargetError if it did not, and `spec` does not allow other databases.
    """
    if is_signed(address, spec.database):
        return True
    if not spec.allow_existing:
        raise TargetError(
            f"cannot use the database {spec.database}: pgdyno did not create it",
            hint="name another one with database, or let pgdyno replace tables in it with allow_existing = true",
        )
    return False


def _text(dbname: str) -> str:
    return f"pgdyno created the database {dbname} and may drop it"


_ROLE = """
    SELECT r.rolsuper, r.rolcreatedb, r.rolconnlimit, pg_is_in_recovery(),
           current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int,
           has_function_privilege('pg_stat_reset()', 'EXECUTE'),
           (SELECT coalesce(bool_or(pg_has_role(oid, 'MEMBER')), false) FROM pg_roles
            WHERE rolname IN ('pg_checkpoint', 'rds_superuser'))
    FROM pg_roles r WHERE r.rolname = current_user
"""
"""The administrator's role of some managed services may run CHECKPOINT without pg_checkpoint."""
_ROW = TypeAdapter(tuple[bool, bool, int, bool, int, bool, bool])


@dataclass(frozen=True, slots=True)
class Reached:
    """The capabilities of a server that pgdyno has connected to."""

    address: Address
    maintenance: str
    """The database that pgdyno connected to."""
    version: str
    """As the server reports it: "18.6"."""
    major: int
    abilities: Abilities
    identity: ServerIdentity
    path: LoadPath | None = None
    """Where the clients of the load connect; None: to the server, or its database does not exist yet."""


def reach(spec: DsnTarget, use: Use) -> Reached:
    """Connect to the server of `spec` and examines its capabilities without changing anything.

    Raises TargetError if the server is unreachable, too old, or measured by another pgdyno for which `use` does not
    wait; also if it cannot provide a setting or the database of `spec`.
    """
    given, maintenance = given_address(spec, os.environ)
    with _direct(given, maintenance, spec) as connection, limit_answers(connection):
        major = connection.info.server_version // 10000
        if major < OLDEST_MAJOR:
            raise TargetError(f"the server is older than PostgreSQL {OLDEST_MAJOR}")
        busy = server_holder(connection)
        if busy is not None and use.when_busy is WhenBusy.REFUSE:
            raise TargetError(f"another pgdyno is measuring this server: {busy}", hint=HINT)
        version = connection.execute("SELECT current_setting('server_version')").fetchone()
        if version is None or not str(version[0]).split():
            raise TargetError("the server does not report its version: it is not PostgreSQL")
        abilities = _abilities(connection)
        check_contexts(connection, spec.settings)
        address = resolved_address(connection)
        exists = _check_database(connection, address, spec, abilities)
        identity = server_identity(connection)
        path = load_path(spec, address) if exists else None
        if path is not None:
            abilities = abilities._replace(pooler=path.name, may_prepare=path.may_prepare)
        return Reached(address, maintenance, str(version[0]).split()[0], major, abilities, identity, path)


def load_path(spec: DsnTarget, address: Address, environ: Mapping[str, str] = os.environ) -> LoadPath | None:
    """Return where the clients of the load connect, if `spec` names another place than `address`.

    Raises TargetError if that does not lead to the same database.
    """
    if spec.load_dsn is None:
        return None
    given = {name: str(value) for name, value in conninfo_to_dict(spec.load_dsn).items()}
    with address.connect(spec.database) as direct:
        return find_load_path(given, given.pop("dbname", spec.database), _password(spec, environ), direct)


def _direct(given: Address, maintenance: str, spec: DsnTarget) -> psycopg.Connection[tuple[Any, ...]]:
    try:
        return given.connect(maintenance)
    except PoolerError as error:
        what = "dsn" if spec.load_dsn is None else "dsn, not only load_dsn,"
        raise PoolerError(
            f"{what} must lead to the server: {error.message}",
            hint=f"{error.hint}; load_dsn (ab: --load-dsn) is for the pooler, which only the load goes through",
        ) from error


def given_address(spec: DsnTarget, environ: Mapping[str, str] = os.environ) -> tuple[Address, str]:
    """Return the address of `spec`, for this process only, and the database for administration. Raises TargetError."""
    given = {name: str(value) for name, value in conninfo_to_dict(spec.dsn).items()}
    maintenance = given.pop("dbname", None) or environ.get("PGDATABASE") or MAINTENANCE
    return Address(given, _password(spec, environ)), maintenance


def _password(spec: DsnTarget, environ: Mapping[str, str]) -> str | None:
    if spec.ignores_pgpassword:
        return USE_FILE
    if spec.password_env is None:
        return None
    password = environ.get(spec.password_env)
    if password is None:
        raise TargetError(f"the environment has no variable {spec.password_env}", hint="set it before you start pgdyno")
    return password


def _check_database(
    connection: psycopg.Connection[tuple[Any, ...]], address: Address, spec: DsnTarget, abilities: Abilities
) -> bool:
    """Return whether the workload's database exists. Raises TargetError if it can be neither created nor used."""
    if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [spec.database]).fetchone() is not None:
        check_signed(address, spec)
        return True
    if abilities.is_standby:
        raise TargetError(
            f"cannot create the database {spec.database}: the server is a standby",
            hint="name a database that exists, with allow_existing = true, or the primary",
        )
    if not abilities.may_make_databases:
        raise TargetError(
            f"cannot create the database {spec.database}: the role may not create databases",
            hint="grant it CREATEDB, or name an existing database, with allow_existing = true",
        )
    return False


def _abilities(connection: psycopg.Connection[tuple[Any, ...]]) -> Abilities:
    row = connection.execute(_ROLE).fetchone()
    superuser, makes_databases, limit, standby, connections, resets, checkpoints = _ROW.validate_python(row)
    return Abilities(
        connections=connections if limit < 0 else min(connections, limit),
        may_checkpoint=superuser or checkpoints,
        may_reset_statistics=superuser or resets,
        may_make_databases=superuser or makes_databases,
        is_standby=standby,
    )
