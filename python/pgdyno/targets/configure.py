"""Brings a running server to other settings: written to its configuration, then reloaded or restarted."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, LiteralString

import psycopg

from pgdyno.errors import TargetError
from pgdyno.targets.database_settings import check_contexts, reset_settings, set_settings
from pgdyno.targets.log import explain, log_size, read_log
from pgdyno.targets.settings import check_settings

if TYPE_CHECKING:
    from pgdyno.targets.server import Server

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
