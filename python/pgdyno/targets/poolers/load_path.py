"""Where the clients of a load connect if that is not the server itself, and whether it leads to the same database."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg import pq
from psycopg.pq.abc import PGconn

from pgdyno.errors import TargetError
from pgdyno.targets.connection import CONNECT_TIMEOUT_S, Address, connecting_hint, connecting_limit_s, resolved_address
from pgdyno.targets.direct_session import open_pooled_session
from pgdyno.targets.response_limits import HINT, SilentServerError, limit_answers

UNKNOWN = "a connection pooler"
_CONSOLE = "pgbouncer"
_SAME = """
    SELECT pg_catalog.pg_postmaster_start_time()::pg_catalog.text, oid::pg_catalog.text
    FROM pg_catalog.pg_database WHERE datname OPERATOR(pg_catalog.=) pg_catalog.current_database()
"""
"""No two servers begin in the same microsecond, whereas copies of a cluster, such as standbys, share its system
identifier.
"""
_FIRST = "_pg3_0"
"""psycopg's name of the first statement that a connection prepares."""
_COUNT = "SELECT pg_catalog.count(*) FROM pg_catalog.pg_prepared_statements WHERE name = '_pg3_0'"


@dataclass(frozen=True, slots=True)
class LoadPath:
    """A pooler through which only the clients of the load connect."""

    address: Address
    dbname: str
    """The pooler's name of the database."""
    name: str
    """`PgBouncer 1.18.0`."""
    words: str
    """The same with mode and size of the pool, as far as they are known."""
    pool: int | None
    may_prepare: bool
    """Whether it keeps the prepared statements of its clients apart."""
    is_own: bool
    """Whether pgdyno started it, for this target alone."""
    pids: Callable[[], Sequence[int]] = tuple
    """Return its processes on this machine; none if it is not pgdyno's."""

    def environment(self) -> dict[str, str]:
        """Return the variables with which the clients of the load connect."""
        return self.address.environment(self.dbname)

    def open_console(self) -> Callable[[], dict[str, float]]:
        """Open a session of PgBouncer's console; return what reads the pool's figures there. Raises TargetError."""
        console = open_console(self.address)
        return lambda: _figures(console, self.dbname) | _cpu(self.pids())


def find_load_path(
    parameters: Mapping[str, str], dbname: str, password: str | None, direct: psycopg.Connection[tuple[Any, ...]]
) -> LoadPath:
    """Return the path through the address `parameters`, which must lead to the database of `direct`.

    Raises TargetError.
    """
    connection = _open(Address(dict(parameters), password), dbname)
    try:
        with limit_answers(connection):
            _check_same(connection, direct)
            may_prepare = _keeps_statements_apart(connection)
            address = resolved_address(connection)
    except psycopg.Error as error:
        raise TargetError(f"load_dsn: the pooler refused what pgdyno asked: {str(error).strip()}") from error
    finally:
        connection.close()
    name, mode, pool = _facts_of_console(address, dbname)
    words = ", ".join([name, *([f"{mode} pooling, pool of {pool}"] if mode else [])])
    return LoadPath(address, dbname, name, words, pool, may_prepare, is_own=False)


def check_same_database(path: LoadPath, direct: psycopg.Connection[tuple[Any, ...]]) -> None:
    """Raise TargetError if `path` leads elsewhere than the session `direct`."""
    connection = _open(path.address, path.dbname)
    try:
        with limit_answers(connection):
            _check_same(connection, direct)
    finally:
        connection.close()


def open_console(address: Address) -> PGconn:
    """Open a session of PgBouncer's console, which speaks only the simple protocol. Raises TargetError."""
    values = {**address.parameters, "dbname": _CONSOLE, "connect_timeout": "5", "options": "", "application_name": ""}
    if address.password:
        values["password"] = address.password
    console = pq.PGconn.connect(psycopg.conninfo.make_conninfo(**values).encode())
    if console.status != pq.ConnStatus.OK:
        raise TargetError(console.error_message.decode(errors="replace").strip())
    return console


def read_console(console: PGconn, command: str) -> list[dict[str, str]]:
    """Return the rows of `command`, such as SHOW POOLS. Raises TargetError."""
    result = console.exec_(command.encode())
    if result.status != pq.ExecStatus.TUPLES_OK:
        raise TargetError(f"{command}: {result.error_message.decode(errors='replace').strip()}")
    names = [(result.fname(at) or b"").decode() for at in range(result.nfields)]
    return [
        {name: (result.get_value(row, at) or b"").decode(errors="replace") for at, name in enumerate(names)}
        for row in range(result.ntuples)
    ]


_OF_STATS = {
    "transactions": ("total_xact_count", 1.0),
    "queries": ("total_query_count", 1.0),
    "received": ("total_received", 1.0),
    "sent": ("total_sent", 1.0),
    "wait_time": ("total_wait_time", 1e-3),
    "transaction_time": ("total_xact_time", 1e-3),
    "query_time": ("total_query_time", 1e-3),
}
"""Column and factor of a counter; times are in ms."""


def _cpu(pids: Sequence[int]) -> dict[str, float]:
    """Return the CPU time of the processes in microseconds (utime and stime of proc(5))."""
    ticks = 0
    for pid in pids:
        with suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return {"cpu": ticks * 1e6 / os.sysconf("SC_CLK_TCK")} if pids else {}


def _figures(console: PGconn, dbname: str) -> dict[str, float]:
    """Return what SHOW POOLS, SHOW STATS and SHOW LISTS say of a database. Raises TargetError."""
    pools = [row for row in read_console(console, "SHOW POOLS") if row["database"] == dbname]
    stats = [row for row in read_console(console, "SHOW STATS") if row["database"] == dbname]
    lists = {row["list"]: float(row["items"]) for row in read_console(console, "SHOW LISTS")}
    waits = [1e3 * float(row["maxwait"]) + 1e-3 * float(row.get("maxwait_us", 0)) for row in pools]
    return {
        "clients_active": sum(float(row["cl_active"]) for row in pools),
        "clients_waiting": sum(float(row["cl_waiting"]) for row in pools),
        "longest_wait": max(waits, default=0.0),
        "servers_active": sum(float(row["sv_active"]) for row in pools),
        "servers_idle": sum(float(row["sv_idle"]) + float(row["sv_used"]) for row in pools),
        "clients": lists.get("used_clients", 0.0),
        "servers": lists.get("used_servers", 0.0),
        **{name: factor * sum(float(row[key]) for row in stats) for name, (key, factor) in _OF_STATS.items()},
    }


def _open(address: Address, dbname: str) -> psycopg.Connection[tuple[Any, ...]]:
    values = {"connect_timeout": str(CONNECT_TIMEOUT_S), **address.parameters, "dbname": dbname}
    where = f"{values.get('host') or values.get('hostaddr') or 'the socket'}, port {values.get('port', '5432')}"
    try:
        return open_pooled_session(values | {"password": address.password}, connecting_limit_s(values))
    except (psycopg.errors.ConnectionTimeout, TimeoutError) as error:
        raise SilentServerError(f"the pooler at {where} does not answer", hint=HINT) from error
    except psycopg.Error as error:
        hint = connecting_hint(str(error)) or "check load_dsn, and whether the pooler runs"
        raise TargetError(
            f"cannot connect through the pooler at {where}, to its database {dbname}: {str(error).strip()}", hint=hint
        ) from error


def _check_same(pooled: psycopg.Connection[Any], direct: psycopg.Connection[Any]) -> None:
    if pooled.execute(_SAME).fetchone() != direct.execute(_SAME).fetchone():
        raise TargetError(
            "the pooler leads to another server or database than the one that pgdyno prepares",
            hint="let load_dsn and dsn lead to the same database of the same server",
        )


def _keeps_statements_apart(connection: psycopg.Connection[Any]) -> bool:
    """Return whether a prepared statement gets another name at the server; the transaction keeps the session."""
    connection.prepare_threshold = 0
    try:
        with connection.transaction(force_rollback=True):
            passed_on = connection.execute(_COUNT).fetchone() != (0,)
            if passed_on:
                connection.execute(f"DEALLOCATE {_FIRST}", prepare=False)
    except psycopg.Error:
        return False
    finally:
        connection.prepare_threshold = None
    return not passed_on


def _facts_of_console(address: Address, dbname: str) -> tuple[str, str, int | None]:
    """Return name, mode and size of the pool; most users of a pooler may not ask its console."""
    try:
        console = open_console(address)
    except TargetError:
        return UNKNOWN, "", None
    try:
        version = read_console(console, "SHOW VERSION")[0]["version"]
        database = next(each for each in read_console(console, "SHOW DATABASES") if each["name"] == dbname)
        pools = [each for each in read_console(console, "SHOW POOLS") if each["database"] == dbname]
        return version, pools[0]["pool_mode"] if pools else "", int(database["pool_size"])
    except (TargetError, StopIteration, KeyError, IndexError, ValueError):
        return UNKNOWN, "", None
    finally:
        console.finish()
