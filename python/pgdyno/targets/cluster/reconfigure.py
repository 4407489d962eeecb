"""Other settings for a server: activated by a reload or a restart, verified, and taken back if it refuses them."""

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, LiteralString

import psycopg

from pgdyno.errors import TargetError
from pgdyno.targets.cluster.postmaster import CORRECT_SETTINGS, WRONG_SETTINGS, explain, log_size, read_log
from pgdyno.targets.cluster.settings import check_contexts, check_settings, reset_settings, set_settings
from pgdyno.targets.server import Server

RELOAD_S = 30.0
"""The time limit for the server to reload its configuration."""
_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Configured:
    """The result of changing settings."""

    restarted: bool
    """Whether the server was restarted; False if a reload was enough."""
    values: dict[str, str]
    """Changed settings by name, with the values of SHOW."""

    def in_words(self) -> str:
        """`restarted: work_mem = 8MB, jit = off`."""
        values = ", ".join(f"{name} = {value}" for name, value in self.values.items())
        return f"{'restarted' if self.restarted else 'reloaded'}: {values}"


def reconfigure(server: Server, asked: Mapping[str, str]) -> Configured | None:
    """Apply `asked` as the plan's settings of `server`; return None if they are active already.

    Restarts the server unless a reload is enough for all changes; its caches are cold after a restart. Raises
    TargetError if the server rejects a setting: it then has its old settings again, or is down until the next start.
    """
    check_settings(asked)
    before = dict(server.plan_settings)
    changed = _list_changed(before, asked)
    if not changed:
        return None
    if server.machine is None:
        return _configure_database(server, changed, asked)
    control = server.machine
    restart = _need_restart(server, changed)
    try:
        control.write_settings(asked, server.port)
        if restart:
            server.restart()
        else:
            _reload(server)
        values = _verify_settings(server, changed, asked)
    except TargetError:
        control.write_settings(before, server.port)
        if server.alive():
            _take_back(server, restart=restart)
        raise
    return Configured(restart, values)


def _take_back(server: Server, *, restart: bool) -> None:
    """Make `server` use the settings in its configuration again, after it has refused others. Raises TargetError."""
    if not restart:
        # with some settings, such as a library that does not exist, no session begins
        with suppress(TargetError):
            _reload(server)
            return
    server.restart()


def refuse_others_database(server: Server) -> None:
    """Raise TargetError if settings would change a database that pgdyno did not create."""
    if not server.owns_database:
        raise TargetError(
            f"cannot change settings of the database {server.dbname}: pgdyno did not create it",
            hint="put them under session_settings, or let pgdyno create a database of its own",
        )


def _configure_database(server: Server, changed: list[str], asked: Mapping[str, str]) -> Configured:
    refuse_others_database(server)
    before = server.settings
    with server.connect(server.maintenance) as connection:
        check_contexts(connection, asked)
        try:
            _replace_settings(connection, server.dbname, asked)
        except psycopg.Error as error:
            hint = CORRECT_SETTINGS if isinstance(error, psycopg.errors.InvalidParameterValue) else None
            raise TargetError(f"cannot change settings: {str(error).strip()}", hint=hint) from error
        try:
            values = database_values(server, changed, asked)
        except (TargetError, psycopg.Error):
            _replace_settings(connection, server.dbname, before)
            raise
    server.settings = dict(asked)
    return Configured(restarted=False, values=values)


def _replace_settings(
    connection: psycopg.Connection[tuple[Any, ...]], dbname: str, settings: Mapping[str, str]
) -> None:
    """Make `settings` the only ones of the database, or changes nothing. Raises psycopg.Error."""
    with connection.transaction():
        reset_settings(connection, dbname)
        set_settings(connection, dbname, settings)


_STRONGER = {
    "user": "a setting of the role",
    "database user": "a setting of the role in this database",
    "client": "the options of the connection",
}
"""Sources of pg_settings that take precedence over a database's settings."""


def database_values(server: Server, names: Iterable[str], asked: Mapping[str, str]) -> dict[str, str]:
    """Return the values of `names` in new sessions by SHOW, after the database has got the settings `asked`.

    Raises TargetError if a requested one is not active, psycopg.Error.
    """
    query: LiteralString = (
        "SELECT pg_catalog.lower(name), pg_catalog.current_setting(name), source FROM pg_catalog.pg_settings"
        " WHERE pg_catalog.lower(name) OPERATOR(pg_catalog.=) ANY(%s::pg_catalog.text[])"
    )
    listed = [name.lower() for name in names]
    rows = server.read_as_is(lambda connection: connection.execute(query, [listed]).fetchall())
    # the session settings of the plan are meant to take precedence
    of_sessions = {name.lower() for name in server.session_settings}
    wanted = {name.lower(): value for name, value in asked.items() if name.lower() not in of_sessions}
    for name, value, source in rows:
        if name in wanted and source in _STRONGER:
            raise TargetError(
                f"cannot set {name} = {wanted[name]}: {value} is in effect, from {_STRONGER[source]}",
                hint="remove that one, or put the plan's under session_settings, which take precedence",
            )
    return {name: value for name, value, _ in rows}


def _list_changed(before: Mapping[str, str], asked: Mapping[str, str]) -> list[str]:
    old, new = ({name.lower(): value for name, value in each.items()} for each in (before, asked))
    return sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))


def _need_restart(server: Server, names: list[str]) -> bool:
    with server.connect() as connection:
        rows = connection.execute(
            "SELECT lower(name), context FROM pg_settings WHERE lower(name) = ANY(%s)", [names]
        ).fetchall()
    contexts = dict(rows)
    # a name with a dot may belong to a library that is loaded at the start
    unknown = [name for name in names if name not in contexts and "." not in name]
    if unknown:
        message = f"cannot set {', '.join(unknown)}: the server has no such setting"
        raise TargetError(message, hint=CORRECT_SETTINGS)
    return any(contexts.get(name, "postmaster") == "postmaster" for name in names)


def _reload(server: Server) -> None:
    """Make the server reload its configuration, and wait until it has."""
    offset = log_size(server.log_path)
    reload(server)
    said = read_log(server.log_path, offset)
    if WRONG_SETTINGS in said:
        raise TargetError(f"cannot change settings: {_refusal(said)}", hint=CORRECT_SETTINGS)


def reload(server: Server) -> None:
    """Make `server`, which may be anywhere, reload its configuration; wait until new sessions have it.

    Raises TargetError, psycopg.Error.
    """
    before = _loaded_at(server)
    with server.connect() as connection:
        connection.execute("SELECT pg_reload_conf()")
    end = time.monotonic() + RELOAD_S
    # an existing session may not have reloaded yet; a new one begins with the server's current values
    while _loaded_at(server) == before:
        if time.monotonic() > end:
            raise TargetError(f"cannot change settings: the server did not reload them within {RELOAD_S:.0f} s")
        time.sleep(_POLL_S)


def _loaded_at(server: Server) -> object:
    with server.connect() as connection:
        row = connection.execute("SELECT pg_conf_load_time()").fetchone()
    return row[0] if row else None


def _refusal(said: str) -> str:
    """Return from its log why the server rejected its configuration."""
    lines = [line.partition("LOG:")[2].strip() for line in said.splitlines() if "LOG:" in line]
    reasons = [line for line in lines if "contains errors" not in line and "SIGHUP" not in line]
    return "; ".join(reasons) or explain(said)


def _verify_settings(server: Server, changed: list[str], asked: Mapping[str, str]) -> dict[str, str]:
    """Return the values of `changed` by SHOW. Raises TargetError if a requested one is not active."""
    wanted = {name.lower(): value for name, value in asked.items()}
    values = {}
    query: LiteralString = (
        "SELECT lower(name), current_setting(name), source, sourcefile = current_setting('config_file'),"
        " pending_restart FROM pg_settings WHERE lower(name) = ANY(%s)"
    )
    rows = server.read_as_is(lambda connection: connection.execute(query, [changed]).fetchall())
    for name, value, source, in_ours, pending in rows:
        values[name] = value
        # the server may show the value in another unit; its source tells whether pgdyno set it
        if name in wanted and (pending or source != "configuration file" or not in_ours):
            why = "it waits for a restart" if pending else f"{value} is in effect, from another {source}"
            raise TargetError(f"cannot set {name} = {wanted[name]}: {why}")
    return values
