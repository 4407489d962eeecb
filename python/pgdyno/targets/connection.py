"""The address of a server as libpq parameters, and as environment variables for other programs."""

import os
import re
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from psycopg import pq
from psycopg.abc import Buffer
from psycopg.adapt import Loader
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pgdyno.errors import TargetError, UsageError
from pgdyno.plan.values import refuse_undecodable, refused_option
from pgdyno.records.secret_values import MASK, SECRETS_WITHOUT_VARIABLE
from pgdyno.targets import response_limits
from pgdyno.targets.direct_session import ATTEMPTS, open_session
from pgdyno.targets.response_limits import HINT, Look, SilentServerError, limit_answers

CONNECT_TIMEOUT_S = 30
_PROOF_S = 10
"""Seconds on top of libpq's own timeout, which does not run while libpq computes the proof of a password."""
_TIMEOUTS = ("statement_timeout", "lock_timeout")
_LIFT_LIMITS = """
    SELECT pg_catalog.set_config(name, '0', false) FROM pg_catalog.pg_settings WHERE setting <> '0'
    AND name IN ('idle_in_transaction_session_timeout', 'idle_session_timeout', 'transaction_timeout')
"""
"""Those that end the session; older servers lack some. The session that marks a server as in use is idle for hours."""
_STATE = "SELECT state FROM pg_catalog.pg_stat_activity WHERE pid = %s"
_STATES = """
    SELECT max(state) FROM pg_catalog.pg_stat_activity WHERE datname = current_database()
    AND usename = current_user AND pid <> pg_catalog.pg_backend_pid()
    HAVING bool_and(state LIKE 'idle%')
"""
"""Returns no row while a session of this role in the database is active."""


MAINTENANCE = "postgres"
"""The database for creating, dropping and querying others, unless an address names another one."""
USE_FILE = ""
"""A password with which libpq ignores PGPASSWORD, and looks in the password file."""


def given_parameters(text: str) -> dict[str, str]:
    """Return libpq's parameters in `text`: the name of a database, a connection string or a URI, as for psql.

    Raises UsageError, whose message contains nothing of `text` but the name of an invalid option.
    """
    refuse_undecodable("the connection string", text)
    if text and "=" not in text and not text.startswith(("postgres://", "postgresql://")):
        return {"dbname": text}
    try:
        found = {name: str(value) for name, value in conninfo_to_dict(text).items()}
    except psycopg.ProgrammingError as error:
        message = f"libpq does not accept the connection string{refused_option(text, error)}"
        raise UsageError(message, hint='write postgresql://user@host/database or "host=... dbname=..."') from error
    for name, hint in SECRETS_WITHOUT_VARIABLE.items():
        if name in found:
            raise UsageError(f"{name} cannot be used here", hint=hint)
    return found


class TolerantText(Loader):
    """Decodes text that may be in another database's encoding, or in none: names and statements of all are visible."""

    def load(self, data: Buffer) -> str:
        """Replace what is not UTF-8."""
        return bytes(data).decode(errors="replace")


@dataclass(slots=True)
class Address:
    """The address of a server and the role that connects; each connection chooses its database."""

    parameters: dict[str, str]
    """libpq's parameters without database and password."""
    password: str | None = field(default=None, repr=False)
    """None if libpq finds the password itself, or none is needed; see `USE_FILE`, too."""

    @property
    def host(self) -> str:
        """The folder of the socket, or a name or address; commas separate several."""
        return self.parameters.get("host", "")

    @property
    def port(self) -> int:
        return int(self.parameters.get("port", "5432").partition(",")[0] or 5432)

    def environment(self, dbname: str) -> dict[str, str]:
        """Return the variables with which libpq programs and pgdrive connect."""
        values = {**self.parameters, "dbname": dbname}
        if self.password:
            values["password"] = self.password
        names = variables_of_libpq()
        return {names[keyword]: value for keyword, value in values.items() if keyword in names}

    def connect(self, dbname: str | None, *, as_is: bool = False, **more: str) -> psycopg.Connection[tuple[Any, ...]]:
        """Open a connection in autocommit mode; `more` are additional libpq parameters.

        Without `dbname`, libpq chooses the database. With `as_is` it keeps the session settings of the role and the
        database; see `make_dependable`. Its statements raise SilentServerError when the server falls silent. Raises
        TargetError.
        """
        values: dict[str, Any] = {
            "connect_timeout": os.environ.get("PGCONNECT_TIMEOUT") or str(CONNECT_TIMEOUT_S),
            "application_name": "pgdyno",
            # also for a database in SQL_ASCII, for which psycopg would return text as bytes
            "client_encoding": "utf8",
            **self.parameters,
            **more,
            "dbname": dbname,
        }
        # options may contain secrets that only the server should read
        shown = {name: MASK if name == "options" else value for name, value in {**self.parameters, **more}.items()}
        shown |= {} if dbname is None else {"dbname": dbname}
        shown.pop("application_name", None)
        reached = make_conninfo(**shown) or "the server"
        limit_s = connecting_limit_s(values)
        try:
            connection = open_session(values | {"password": self.password}, limit_s)
        except psycopg.errors.ConnectionTimeout as error:
            raise SilentServerError(f"cannot connect to {reached}: {str(error).strip()}", hint=HINT) from error
        except psycopg.Error as error:
            raise TargetError(
                f"cannot connect to {reached}: {_drop_repeated(error)}", hint=connecting_hint(str(error))
            ) from error
        except TimeoutError as error:
            raise SilentServerError(f"cannot connect to {reached}: not done within {limit_s:g} s", hint=HINT) from error
        connection.look = lambda pid: self.look(dbname, pid, **more)
        if as_is:
            return connection
        try:
            with limit_answers(connection):
                make_dependable(connection)
        except psycopg.Error as error:
            connection.close()
            raise TargetError(
                f"cannot use {reached}: the first statement of the session failed: {str(error).strip()}",
                hint="look at the role's and the database's settings: SELECT * FROM pg_db_role_setting",
            ) from error
        except BaseException:
            connection.close()
            raise
        return connection

    def look(self, dbname: str | None, pid: int | None, **more: str) -> Look:
        """Return whether the server accepts a new session, and the state of its silent session `pid`.

        With `pid` None, it looks whether any session of the role in the database is active.
        """
        values: dict[str, Any] = {"connect_timeout": str(CONNECT_TIMEOUT_S), **self.parameters, **more}
        values |= {"dbname": dbname, "application_name": "pgdyno", "password": self.password}
        limit_s = connecting_limit_s(values) or response_limits.ANSWER_S
        try:
            with open_session(values, limit_s) as connection, limit_answers(connection):
                make_dependable(connection)
                row = connection.execute(_STATES if pid is None else _STATE, None if pid is None else [pid]).fetchone()
        except (TimeoutError, psycopg.errors.ConnectionTimeout, TargetError):
            return Look.SILENT
        except psycopg.Error:
            return Look.REFUSED
        return Look.IDLE if row is not None and str(row[0]).startswith("idle") else Look.WORKS


def reach(
    parameters: dict[str, str], ask_password: Callable[[], str] | None, application_name: str
) -> tuple[Address, psycopg.Connection[tuple[Any, ...]]]:
    """Connect as psql would with libpq's `parameters`, and return the address, too.

    `ask_password` is called if the server requires a password that was not given; None if it cannot be asked for.
    Raises TargetError.
    """
    given = dict(parameters)
    dbname = given.pop("dbname", None)
    given.pop("application_name", None)
    address = Address(given, given.pop("password", None))
    try:
        return address, address.connect(dbname, application_name=application_name)
    except TargetError as error:
        cause = error.__cause__
        wants = isinstance(cause, psycopg.OperationalError) and cause.pgconn is not None and cause.pgconn.needs_password
        if not wants or ask_password is None:
            raise
        address.password = ask_password()
        return address, address.connect(dbname, application_name=application_name)


_NOT_PASSED_ON = ("dbname", "password", "service", "servicefile", "application_name", "fallback_application_name")
"""Parameters that are resolved already, or that differ for each connection."""


def resolved_address(connection: psycopg.Connection[Any]) -> Address:
    """Return the address of `connection` with what libpq found elsewhere: in variables, or in the service file."""
    names = variables_of_libpq()
    options = {option.keyword.decode(): option.val for option in connection.pgconn.info}
    parameters = {
        name: value
        for name, value in connection.info.get_parameters().items()
        if name in names and name not in _NOT_PASSED_ON
    }
    password = options["password"]
    return Address(parameters, None if password is None else password.decode())


_REMEDIES = {
    "password authentication failed": "check PGPASSWORD, ~/.pgpass or the variable of password_env",
    "no password supplied": "set PGPASSWORD, add a line to ~/.pgpass, or name a variable with password_env",
    "Connection refused": "check host and port, and whether the server runs and listens on TCP",
    "could not translate host name": "check the host's name",
    "no pg_hba.conf entry": "add a line for this host, role and database to pg_hba.conf",
    'database ".*" does not exist': "check dbname: psql --list shows the server's databases",
    'role ".*" does not exist': "check user: without it, libpq takes PGUSER or the operating system's user",
    r"No such file or directory\s+Is the server running": "check host, the socket's folder, and that the server runs",
    "server does not support SSL": (
        "set ssl = on at the server; on a network that you trust, sslmode=prefer connects without TLS"
    ),
    "too many clients already|remaining connection slots": "end sessions, or raise max_connections",
    "too many connections for (role|database)": "end sessions, or raise its CONNECTION LIMIT",
    r"unsupported startup parameter|no such database:|FATAL:\s+not allowed\s*$": (
        "these are words of a connection pooler: name the server itself"
    ),
    "the database system is": "wait until the server accepts connections",
}
"""What to do, by a pattern of libpq's message."""


def connecting_hint(message: str) -> str | None:
    """Return the remedy for a failed connection, by libpq's message, or None if no remedy is known."""
    if "no password supplied" in message:
        file = Path(os.environ.get("PGPASSFILE") or Path.home() / ".pgpass")
        with suppress(OSError):
            mode = file.stat().st_mode
            if stat.S_ISREG(mode) and mode & (stat.S_IRWXG | stat.S_IRWXO):
                return f"chmod 600 {file}: libpq ignores a password file that others may read"
    return next((hint for pattern, hint in _REMEDIES.items() if re.search(pattern, message)), None)


def _drop_repeated(error: psycopg.Error) -> str:
    """Return the message without psycopg's repetition: a list of all attempts whose last one it has printed before."""
    text = str(error).strip()
    first, mark, attempts = text.partition("\nMultiple connection attempts failed")
    return text if not mark or first.strip() not in attempts else first.strip()


def connecting_limit_s(parameters: Mapping[str, str]) -> float | None:
    """Return the longest time to try all hosts; None if the user wants no limit."""
    try:
        timeout_s = int(parameters["connect_timeout"])
    except ValueError:
        # psycopg rejects this at once
        return None
    # a name may have two addresses
    hosts = 2 * len(f"{parameters.get('hostaddr') or parameters.get('host') or ''}".split(","))
    return None if timeout_s <= 0 else timeout_s * hosts + _PROOF_S


def make_dependable(connection: psycopg.Connection[tuple[Any, ...]]) -> None:
    """Protects a session of pgdyno from settings of the role or the database.

    No timeout cancels a statement or ends the session, and an unqualified name means the server's own object: if the
    search path lists pg_catalog, other schemas may precede it; if not, pg_catalog is searched first. The load's
    sessions keep all settings, as these are part of what is measured. Raises psycopg.Error.
    """
    for attempt in range(ATTEMPTS):
        try:
            timeouts = {name: _show(connection, name) for name in _TIMEOUTS}
            for name in (name for name, value in timeouts.items() if value != "0"):
                connection.execute(f"SET {name} = 0".encode())
            break
        except psycopg.errors.QueryCanceled:
            # the timeout may expire before this statement lifts it
            if attempt == ATTEMPTS - 1:
                raise
    connection.execute(_LIFT_LIMITS)
    path = [each.strip() for each in _show(connection, "search_path").split(",")]
    kept = [each for each in path if each and each not in ("pg_catalog", '"pg_catalog"')]
    if kept != path:
        # SHOW returns names quoted where necessary
        connection.execute(f"SET search_path = {', '.join(kept) or chr(39) * 2}".encode())


def _show(connection: psycopg.Connection[tuple[Any, ...]], name: str) -> str:
    row = connection.execute(f"SHOW {name}".encode()).fetchone()
    return "" if row is None else str(row[0])


def variables_of_libpq() -> dict[str, str]:
    """Return the names of libpq's environment variables by the parameters that they set."""
    options = pq.Conninfo.get_defaults()
    return {option.keyword.decode(): option.envvar.decode() for option in options if option.envvar is not None}
