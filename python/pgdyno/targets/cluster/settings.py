"""The settings of a server: written to its configuration or its database, reloaded or restarted.

The settings of a server: pgdyno's few, then the plan's.

Everything else stays as the server's own defaults are, for they are part of what is measured.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, LiteralString

import psycopg
from psycopg import sql

from pgdyno.errors import TargetError
from pgdyno.plan.checks.settings import context_refusal, refusal
from pgdyno.targets.cluster.log import explain, log_size, read_log
from pgdyno.targets.home import storing

if TYPE_CHECKING:
    from pgdyno.targets.server import Server


BEGIN = "# ---- pgdyno writes what follows anew at every start ----"


def check_settings(settings: Mapping[str, str]) -> None:
    """Raises TargetError when a setting is pgdyno's own, or no name of a setting at all."""
    for name in settings:
        reason = refusal(name)
        if reason is not None:
            raise TargetError(f"cannot set {name}: {reason}", hint="remove it from the target's settings")


def own_settings(port: int, socket_folder: Path) -> dict[str, str]:
    """What pgdyno itself needs or wants to see in the log."""
    return {
        "listen_addresses": "127.0.0.1",
        "port": str(port),
        "unix_socket_directories": str(socket_folder),
        "cluster_name": "pgdyno",
        "log_destination": "stderr",
        "logging_collector": "off",
        "log_line_prefix": "%m [%p] ",
        "log_timezone": "UTC",
        "log_checkpoints": "on",
        # the reasons that a server gives are searched for in English
        "lc_messages": "C",
    }


def write_settings(data_directory: Path, own: Mapping[str, str], asked: Mapping[str, str]) -> None:
    """Puts both behind what initdb wrote in postgresql.conf, in place of those of an earlier start."""
    path = data_directory / "postgresql.conf"
    with storing(path, "cannot write"):
        # no link is followed: the folder is the server user's, and we may be root
        handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(handle, "r+", encoding="utf-8") as file:
            kept = file.read().partition(BEGIN)[0].rstrip("\n")
            file.seek(0)
            file.write(f"{kept}\n{render(own, asked)}")
            file.truncate()


def render(own: Mapping[str, str], asked: Mapping[str, str]) -> str:
    """The block for postgresql.conf. Where a name comes twice, the server takes the last."""
    lines = [BEGIN, *_lines(own), "# of the plan", *_lines(asked)]
    return "\n".join(lines) + "\n"


def _lines(settings: Mapping[str, str]) -> list[str]:
    return [f"{name} = {quote(value)}" for name, value in settings.items()]


def quote(value: str) -> str:
    """`value` as a string of postgresql.conf, where backslashes and quotes are doubled."""
    escaped = value.replace("\\", "\\\\").replace("'", "''").replace("\n", "\\n")
    return f"'{escaped}'"


_LISTS = {"search_path", "temp_tablespaces", "local_preload_libraries", "session_preload_libraries"}
"""Settings whose values are lists of names, each to be quoted by itself."""


def set_settings(connection: psycopg.Connection[tuple[Any, ...]], dbname: str, settings: Mapping[str, str]) -> None:
    """Gives `dbname` these settings beside those that it has. Raises psycopg.Error."""
    for name, value in settings.items():
        values = [each.strip() for each in value.split(",")] if name.lower() in _LISTS else [value]
        statement = sql.SQL("ALTER DATABASE {} SET {} TO {}").format(
            sql.Identifier(dbname),
            sql.Identifier(*name.lower().split(".")),
            sql.SQL(", ").join(sql.Literal(each) for each in values),
        )
        connection.execute(statement)


def reset_settings(connection: psycopg.Connection[tuple[Any, ...]], dbname: str) -> None:
    """Takes all settings away from `dbname`. Raises psycopg.Error."""
    connection.execute(sql.SQL("ALTER DATABASE {} RESET ALL").format(sql.Identifier(dbname)))


def check_contexts(connection: psycopg.Connection[tuple[Any, ...]], settings: Iterable[str]) -> None:
    """Raises TargetError when one of `settings`, by name, cannot be a database's on this server."""
    for name in settings:
        row = connection.execute("SELECT context FROM pg_settings WHERE lower(name) = lower(%s)", [name]).fetchone()
        # a name with a dot may belong to an extension that is not loaded yet
        reason = "the server has no such setting" if row is None and "." not in name else None
        if row is not None:
            reason = context_refusal(row[0])
        if reason is not None:
            raise TargetError(f"cannot set {name}: {reason}", hint="remove it from the target's settings")


RELOAD_S = 30.0
"""How long the server may take to read its configuration again."""
_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Configured:
    """What was done to bring settings into force."""

    restarted: bool
    """False: a reload was enough."""
    values: dict[str, str]
    """Settings that were changed, by name, as SHOW says them."""

    def in_words(self) -> str:
        """`restarted: work_mem = 8MB, jit = off`."""
        values = ", ".join(f"{name} = {value}" for name, value in self.values.items())
        return f"{'restarted' if self.restarted else 'reloaded'}: {values}"


def configure(server: Server, asked: Mapping[str, str]) -> Configured | None:
    """Makes `asked` the settings of the plan that `server` has; None when it has them already.

    It is restarted unless all that change can be reloaded; caches are cold behind a restart. Raises TargetError
    when the server does not take one of them: it then has its old settings again, or is down until the next start.
    """
    check_settings(asked)
    before = dict(server.plan_settings)
    changed = _changed(before, asked)
    if not changed:
        return None
    if server.machine is None:
        return _configure_database(server, changed, asked)
    control = server.machine.control
    restart = _need_restart(server, changed)
    try:
        control.write_settings(asked, server.port)
        if restart:
            server.restart()
        else:
            _reload(server)
        values = _verified(server, changed, asked)
    except TargetError:
        control.write_settings(before, server.port)
        if server.alive() and not restart:
            _reload(server)
        elif server.alive():
            server.restart()
        raise
    return Configured(restart, values)


def refuse_others_database(server: Server) -> None:
    """Raises TargetError when settings would be those of a database that pgdyno did not make."""
    if not server.owns_database:
        raise TargetError(
            f"cannot change settings of the database {server.dbname}: pgdyno did not make it",
            hint="set them there yourself, or let pgdyno make a database of its own",
        )


def _configure_database(server: Server, changed: list[str], asked: Mapping[str, str]) -> Configured:
    """The same over the network, where they are the database's: sessions that begin from now on have them."""
    refuse_others_database(server)
    with server.connect(server.maintenance) as connection:
        check_contexts(connection, asked)
        try:
            reset_settings(connection, server.dbname)
            set_settings(connection, server.dbname, asked)
        except psycopg.Error as error:
            raise TargetError(f"cannot change settings: {str(error).strip()}") from error
    server.settings = dict(asked)
    query: LiteralString = (
        "SELECT pg_catalog.lower(name), pg_catalog.current_setting(name) FROM pg_catalog.pg_settings"
        " WHERE pg_catalog.lower(name) OPERATOR(pg_catalog.=) ANY(%s::pg_catalog.text[])"
    )
    rows = server.read_as_is(lambda connection: connection.execute(query, [changed]).fetchall())
    return Configured(restarted=False, values=dict(rows))


def _changed(before: Mapping[str, str], asked: Mapping[str, str]) -> list[str]:
    """Names whose values differ, in lower case, as the server compares them."""
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
        raise TargetError(f"cannot set {', '.join(unknown)}: the server knows no such setting")
    return any(contexts.get(name, "postmaster") == "postmaster" for name in names)


def _reload(server: Server) -> None:
    """Lets the server read its configuration again, and waits until it has."""
    offset = log_size(server.log_path)
    before = _loaded_at(server)
    with server.connect() as connection:
        connection.execute("SELECT pg_reload_conf()")
    end = time.monotonic() + RELOAD_S
    # a session of before may not have heard of it yet; a new one begins with what the server has
    while _loaded_at(server) == before:
        if time.monotonic() > end:
            raise TargetError(f"cannot change settings: the server did not reload them within {RELOAD_S:.0f} s")
        time.sleep(_POLL_S)
    said = read_log(server.log_path, offset)
    if "contains errors" in said:
        raise TargetError(f"cannot change settings: {_refusal(said)}")


def _loaded_at(server: Server) -> object:
    with server.connect() as connection:
        row = connection.execute("SELECT pg_conf_load_time()").fetchone()
    return row[0] if row else None


def _refusal(said: str) -> str:
    """Why the server did not take its configuration, from its log."""
    lines = [line.partition("LOG:")[2].strip() for line in said.splitlines() if "LOG:" in line]
    reasons = [line for line in lines if "contains errors" not in line and "SIGHUP" not in line]
    return "; ".join(reasons) or explain(said)


def _verified(server: Server, changed: list[str], asked: Mapping[str, str]) -> dict[str, str]:
    """What SHOW says of `changed` now. Raises TargetError when one of those asked for is not in force."""
    wanted = {name.lower(): value for name, value in asked.items()}
    values = {}
    query: LiteralString = (
        "SELECT lower(name), current_setting(name), source, sourcefile = current_setting('config_file'),"
        " pending_restart FROM pg_settings WHERE lower(name) = ANY(%s)"
    )
    rows = server.read_as_is(lambda connection: connection.execute(query, [changed]).fetchall())
    for name, value, source, in_ours, pending in rows:
        values[name] = value
        # the value itself may be written in another unit; where it is from says whether it is ours
        if name in wanted and (pending or source != "configuration file" or not in_ours):
            why = "it waits for a restart" if pending else f"{value} is in force, from another {source}"
            raise TargetError(f"cannot set {name} = {wanted[name]}: {why}")
    return values
