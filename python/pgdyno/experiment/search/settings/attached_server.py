"""The configuration of a server that pgdyno did not start, which a search changes with ALTER SYSTEM and restores.

A server that does not start with a configuration cannot be changed with ALTER SYSTEM. If pgdyno can write its
postgresql.auto.conf, on this host or over SSH, it puts the original lines back and starts it again; otherwise it says
which lines to change.
"""

import os
import shlex
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from pydantic import TypeAdapter

from pgdyno.errors import PgdynoError, StopRunError, TargetError
from pgdyno.experiment.resources import Resources
from pgdyno.experiment.run_context import RunContext
from pgdyno.experiment.search.settings.settings_journal import (
    COPY,
    RESTORE,
    Journal,
    Values,
    journal_locked,
    journal_of,
    journals,
    read_journal,
)
from pgdyno.host import describe_host
from pgdyno.messages import Message
from pgdyno.plan.targets import TargetSpec
from pgdyno.plan.values import RESOLVED
from pgdyno.remote.remote_host import RemoteError
from pgdyno.run.hook_command import Hook, HookError, run_hook
from pgdyno.targets import Home, Progress, Server, Use, WhenBusy
from pgdyno.targets.cluster.reconfigure import Configured, reload
from pgdyno.targets.dsn.reach import given_address
from pgdyno.targets.dsn.schema import DsnTarget
from pgdyno.targets.lock import server_in_use

_OLDEST_GRANTS = 150000
"""The first version with GRANT ... ON PARAMETER."""


def check_rights(connection: psycopg.Connection[tuple[Any, ...]], names: Sequence[str]) -> None:
    """Raise TargetError, with the statements that grant what is missing, unless the role may change `names`."""
    row = connection.execute(
        "SELECT rolsuper, pg_catalog.quote_ident(rolname), coalesce(current_setting('allow_alter_system', true), 'on')"
        " FROM pg_catalog.pg_roles WHERE rolname = current_user"
    ).fetchone()
    assert row is not None
    is_superuser, role, allowed = row
    if allowed == "off":
        raise TargetError("the server refuses ALTER SYSTEM", hint="set allow_alter_system = on in postgresql.conf")
    if is_superuser:
        return
    if connection.info.server_version < _OLDEST_GRANTS:
        raise TargetError(f"the role {role} may not use ALTER SYSTEM", hint="connect as a superuser")
    missing = []
    if not all(_has_function(connection, "has_parameter_privilege(%s, 'ALTER SYSTEM')", name) for name in names):
        missing.append(f"GRANT ALTER SYSTEM ON PARAMETER {', '.join(names)} TO {role}")
    missing += [
        f"GRANT EXECUTE ON FUNCTION {function} TO {role}"
        for function in ("pg_catalog.pg_reload_conf()", "pg_catalog.pg_show_all_file_settings()")
        if not _has_function(connection, "has_function_privilege(%s, 'EXECUTE')", function)
    ]
    if not _has_function(connection, "pg_has_role(%s, 'USAGE')", "pg_read_all_settings"):
        missing.append(f"GRANT pg_read_all_settings TO {role}")
    if missing:
        raise TargetError(f"the role {role} may not change these settings", hint="; ".join(missing))


def _has_function(connection: psycopg.Connection[tuple[Any, ...]], call: str, what: str) -> bool:
    row = connection.execute(f"SELECT pg_catalog.{call}".encode(), [what]).fetchone()
    return bool(row and row[0])


RESTART_S = 600.0
"""The time limit for the restart command, which may wait for a checkpoint."""
BACK_S = 120.0
"""The time limit for a restarted server to accept connections."""
_POLL_S = 0.2

_FILE_SETTINGS = """
    SELECT lower(name), setting FROM pg_catalog.pg_show_all_file_settings()
    WHERE sourcefile LIKE '%%/postgresql.auto.conf' AND lower(name) = ANY(%s) ORDER BY seqno
"""
"""Of several lines for a name, the last one counts."""
_IN_FORCE = """
    SELECT lower(name), pg_catalog.current_setting(name), source, pending_restart
    FROM pg_catalog.pg_settings WHERE lower(name) = ANY(%s)
"""
_IDENTIFIER = "SELECT system_identifier::text FROM pg_catalog.pg_control_system()"


@dataclass(slots=True)
class AttachedServer:
    server: Server
    spec: TargetSpec
    journal: Journal
    home: Home
    lock_again: Callable[[], object]
    """Takes the server's advisory lock, which a restart releases."""
    _in_force: Values | None = field(default=None, init=False)
    """What is known to be in force; None after any error, and at first: a killed run may have left anything."""

    def configure(self, asked: Mapping[str, str]) -> Configured | None:
        """Put `asked` into force, and the original values of all other searched settings; None if nothing changed.

        Raises TargetError if the server refuses a value, StopRunError if it cannot be restarted, StoreError.
        """
        wanted = self._wanted_values(asked)
        if wanted == self._in_force:
            return None
        self._in_force = None
        self.journal.current = dict(wanted)
        self.journal.write(self.home)
        try:
            changed = self._alter(wanted)
            reload(self.server)
            needs_restart = any(pending for _, _, pending in self._read().values())
            if needs_restart:
                self.restart()
            found = self._read()
        except psycopg.Error as error:
            raise TargetError(f"cannot change settings: {str(error).strip()}") from error
        for name, (value, source, pending) in found.items():
            if pending or (wanted[name] is not None and source != "configuration file"):
                why = "it waits for a restart" if pending else f"{value} is in effect, from the {source}"
                raise TargetError(f"cannot set {name} = {wanted[name]}: {why}")
        self._in_force = wanted
        values = {name: value for name, (value, _, _) in found.items() if name in changed}
        return Configured(needs_restart, values) if changed or needs_restart else None

    def is_in_force(self, asked: Mapping[str, str]) -> bool:
        """Return whether `configure` would change nothing."""
        return self._wanted_values(asked) == self._in_force

    def _wanted_values(self, asked: Mapping[str, str]) -> Values:
        given = {name.lower(): value for name, value in asked.items()}
        return {name: given.get(name, original) for name, original in self.journal.originals.items()}

    def restart(self) -> None:
        """Restarts the server, and waits until it accepts connections.

        Raises TargetError if it did not start with its settings and runs with its original ones again; StopRunError if
        the command failed or the server is down.
        """
        why = self._restart()
        if why is None:
            return
        self._in_force = None
        if self.is_up():
            raise StopRunError(
                Message(
                    "restart-failed", "target {target} was not restarted: {why}", target=self.journal.name, why=why
                ),
                hint="correct restart in the target",
            )
        self._start_with_originals(why)
        raise TargetError(f"the server did not start with these settings: {why}; it has its original ones again")

    def restore(self) -> None:
        """Put all original values into force, and remove the journal. Raises PgdynoError."""
        if not self.is_up():
            self._start_with_originals("it accepts no connections")
        with self.server.connect(self.server.maintenance) as connection:
            _check_same(self.journal, _identifier(connection))
        self.configure({})
        self.journal.remove(self.home)

    def memory_bytes(self) -> int | None:
        """Return the memory of the server's host; None if pgdyno does not know the host. Raises TargetError."""
        if self.spec.probed_host is not None:
            words = self._on_host("grep MemTotal: /proc/meminfo").split()
            return int(words[1]) * 1024
        is_here = self.server.host.startswith("/") or self.server.host in ("", "localhost", "127.0.0.1", "::1")
        return describe_host().memory_bytes if is_here else None

    # ---- with SQL ----

    def _alter(self, wanted: Values) -> list[str]:
        """Change postgresql.auto.conf; return the names whose lines changed. Raises TargetError, psycopg.Error."""
        with self.server.connect(self.server.maintenance) as connection:
            before = in_file(connection, list(wanted))
            changed = [name for name, value in wanted.items() if before[name] != value]
            for name in changed:
                value = wanted[name]
                what = sql.SQL("RESET {}") if value is None else sql.SQL("SET {} = {}")
                parts = [sql.Identifier(*name.split(".")), *([] if value is None else [sql.Literal(value)])]
                connection.execute(sql.SQL("ALTER SYSTEM ") + what.format(*parts))
        return changed

    def _read(self) -> dict[str, tuple[str, str, bool]]:
        with self.server.connect(self.server.maintenance) as connection:
            rows = connection.execute(_IN_FORCE, [list(self.journal.originals)]).fetchall()
        return {name: (value, source, pending) for name, value, source, pending in rows}

    def is_up(self) -> bool:
        """Return whether the server accepts connections."""
        return self._started_at() is not None

    def _started_at(self) -> object | None:
        """Return when the server started; None if it accepts no connections."""
        try:
            with self.server.connect(self.server.maintenance) as connection:
                row = connection.execute("SELECT pg_catalog.pg_postmaster_start_time()::text").fetchone()
        except (TargetError, psycopg.Error):
            return None
        return None if row is None else row[0]

    # ---- on its host ----

    def _restart(self) -> str | None:
        """Run the restart command; return why the server did not come back, or None if it did."""
        before, command = self._started_at(), self.spec.restart_command
        if not command:
            return "restart is empty"
        try:
            if self.spec.probed_host is not None:
                self._on_host(command, within_s=RESTART_S)
            else:
                with tempfile.TemporaryDirectory() as folder:
                    hook = Hook("restart", command, Path(self.journal.plan_folder), RESTART_S)
                    run_hook(hook, self.server.environment(), Path(folder) / "log")
        except (HookError, RemoteError) as error:
            return error.message.removeprefix("the hook ")
        end = time.monotonic() + BACK_S
        while (started := self._started_at()) in (None, before):
            if time.monotonic() > end:
                state = "accepts no connections" if started is None else "was not restarted"
                return f"{BACK_S:.0f} s after the restart command, it {state}"
            time.sleep(_POLL_S)
        self.lock_again()
        return None

    def _start_with_originals(self, why: str) -> None:
        """Put the original lines into postgresql.auto.conf, and start the server. Raises StopRunError."""
        try:
            is_back = self._put_back()
            if is_back:
                self.journal.current = dict(self.journal.originals)
                self.journal.write(self.home)
            again = self._restart() if is_back else None
        except (OSError, UnicodeDecodeError, RemoteError) as error:
            is_back, again = False, f"{self.journal.file}: {error}"
        if not is_back or again is not None:
            message = Message(
                "server-down",
                "target {target} is down: {why}",
                target=self.journal.name,
                why=why if again is None else f"{why}; {again}",
            )
            raise StopRunError(message, hint=self.journal.by_hand())

    def _put_back(self) -> bool:
        file = self.journal.file
        if self.spec.probed_host is not None:
            text = self.journal.put_back(self._on_host(f"cat {shlex.quote(file)}"))
            if text is not None:
                self._on_host(f"cat > {shlex.quote(file)}", text)
            return text is not None
        # follows no link: the folder belongs to the server's user, and pgdyno may be root
        with os.fdopen(os.open(file, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC), "r+", encoding="utf-8") as stream:
            text = self.journal.put_back(stream.read())
            if text is not None:
                stream.seek(0)
                stream.write(text)
                stream.truncate()
                stream.flush()
                os.fsync(stream.fileno())
        return text is not None

    def _on_host(self, command: str, text: str | None = None, *, within_s: float = 60.0) -> str:
        # loading the library for SSH takes time, and most runs need none
        from pgdyno.remote.connect import ask

        host = self.spec.probed_host
        assert host is not None
        return ask(host, command, within_s, text)


def in_file(connection: psycopg.Connection[tuple[Any, ...]], names: Sequence[str]) -> dict[str, str | None]:
    """Return the values in postgresql.auto.conf by name in lower case; None if absent. Raises psycopg.Error."""
    lower = [name.lower() for name in names]
    rows = dict(connection.execute(_FILE_SETTINGS, [lower]).fetchall())
    return {name: rows.get(name) for name in lower}


@contextmanager
def attach_server(name: str, server: Server, context: RunContext, resources: Resources) -> Iterator[AttachedServer]:
    """Yield `server`, whose settings the search of the plan may change; restores them after the block.

    Raises PgdynoError; the journal then stays if the settings could not be restored.
    """
    names, home, use = sorted(context.plan.system_names), context.home, resources.use
    if use.when_busy is WhenBusy.ALONGSIDE:
        raise TargetError("a search that changes a server's settings must be alone", hint="remove --alongside")
    with ExitStack() as stack, ExitStack() as held:
        with server.connect(server.maintenance) as connection:
            identifier = _identifier(connection)
            stack.enter_context(journal_locked(home, identifier))
            journal = journal_of(home, identifier) or read_journal(context.folder.path / COPY)
            if journal is None:
                check_rights(connection, names)
                journal = _new_journal(connection, identifier, name, names, context)
                journal.write(home)
            _check_same(journal, identifier)

        def lock_again() -> None:
            held.close()
            held.enter_context(server_in_use(server.address, server.maintenance, use, resources.progress))

        found = AttachedServer(server, context.plan.target[name], journal, home, lock_again)
        try:
            yield found
        finally:
            resources.progress.set_up(f"restoring the settings of target {name}")
            try:
                found.restore()
            except PgdynoError as error:
                message = f"the settings of target {name} are not restored: {error.message}"
                raise TargetError(message, hint=error.hint or RESTORE) from error
            except BaseException:
                resources.progress.note(
                    Message(
                        "settings-not-restored",
                        "the settings of target {target} are not restored; to restore them: {command}",
                        target=name,
                        command=RESTORE,
                    )
                )
                raise


def restore_left(journal: Journal, home: Home, progress: Progress) -> None:
    """Restores the settings that a killed run left. Raises PgdynoError."""
    spec = TypeAdapter[DsnTarget](DsnTarget).validate_python(journal.target, context=RESOLVED)
    address, maintenance = given_address(spec)
    server = Server(address, [], machine=None, dbname=maintenance, maintenance=maintenance)
    with journal_locked(home, journal.identifier), ExitStack() as held:

        def lock() -> None:
            held.close()
            held.enter_context(server_in_use(address, maintenance, Use("restore"), progress))

        found = AttachedServer(server, spec, journal, home, lock)
        if found.is_up():
            lock()
        found.restore()


def _new_journal(
    connection: psycopg.Connection[tuple[Any, ...]],
    identifier: str,
    name: str,
    names: Sequence[str],
    context: RunContext,
) -> Journal:
    row = connection.execute("SELECT pg_catalog.current_setting('data_directory')").fetchone()
    waiting = connection.execute("SELECT name FROM pg_catalog.pg_settings WHERE pending_restart").fetchall()
    if waiting:
        listed = ", ".join(each for (each,) in waiting)
        raise TargetError(f"these settings of the server wait for a restart: {listed}", hint="restart it first")
    originals = in_file(connection, names)
    return Journal(
        identifier=identifier,
        run=str(context.folder.path.absolute()),
        name=name,
        target=context.plan.target[name].model_dump(mode="json"),
        plan_folder=str(context.loaded.folder.absolute()),
        file=f"{row[0] if row else ''}/postgresql.auto.conf",
        originals=originals,
        current=originals,
    )


def _identifier(connection: psycopg.Connection[tuple[Any, ...]]) -> str:
    row = connection.execute(_IDENTIFIER).fetchone()
    assert row is not None
    return str(row[0])


def _check_same(journal: Journal, identifier: str) -> None:
    if identifier != journal.identifier:
        message = f"another server is at the address of target {journal.name} now"
        raise TargetError(message, hint="point the address to the server that the search changed")


def check_left(server: Server, home: Home, run: Path) -> None:
    """Raise TargetError if another run left settings on `server` that are not its own."""
    if server.machine is not None or not journals(home):
        return
    with server.connect(server.maintenance) as connection:
        left = journal_of(home, _identifier(connection))
    if left is not None and left.run != str(run.absolute()):
        raise TargetError(
            f"run {left.run} did not end and left changed settings on this server",
            hint=f"resume it, or restore them: {RESTORE}",
        )
