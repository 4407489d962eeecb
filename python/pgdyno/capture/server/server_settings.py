"""Settings of a server, and the statements that change them and later restore them. pgdyno itself changes nothing."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pgdyno.capture.server.server_session import Connection

_SETTINGS = """
    SELECT /* pgdyno */ name, setting, pg_catalog.current_setting(name), context = 'postmaster', source,
           coalesce(sourcefile, '')
    FROM pg_catalog.pg_settings WHERE name = ANY(%s)
"""
_RELOAD = "SELECT pg_reload_conf();"
MANAGED = "on a managed service, such as RDS, change the parameter group or flags instead"


@dataclass(frozen=True, slots=True)
class Setting:
    name: str
    value: str
    """In the setting's own unit, such as milliseconds."""
    shown: str
    needs_restart: bool = False
    source: str = "default"
    """Source of the value, as in pg_settings."""
    file: str = ""
    """The configuration file, if the role may know it."""

    @property
    def is_of_role(self) -> bool:
        """Whether it is our role's or database's own, so that other sessions may have another value."""
        return self.source in ("user", "database", "database user", "client", "session")

    def set_to(self, value: str) -> str:
        if self.source == "command line":
            return f"-- {self.name} is on the server's command line: start it with -c {self.name}={value}"
        return f"ALTER SYSTEM SET {self.name} = {_literal(value)};"

    def restore_statement(self) -> str:
        """Return the statement that restores what the server has now."""
        if self.source == "command line":
            return f"-- start the server with -c {self.name}={self.value} again"
        # ALTER SYSTEM writes postgresql.auto.conf; what the role may not know could be there, too
        in_auto_file = self.file.endswith("postgresql.auto.conf") or (self.source != "default" and not self.file)
        if in_auto_file:
            return f"ALTER SYSTEM SET {self.name} = {_literal(self.value)};"
        return f"ALTER SYSTEM RESET {self.name};"


def read_settings(connection: Connection, names: Iterable[str]) -> dict[str, Setting]:
    """Return those settings that exist and that the role may see. Raises psycopg.Error."""
    rows = connection.execute(_SETTINGS, [list(names)]).fetchall()
    return {name: Setting(name, *others) for name, *others in rows}


def remedy(
    changes: Sequence[tuple[Setting, str]],
    before: Sequence[str] = (),
    after: Sequence[str] = (),
    last: Sequence[str] = (),
) -> str:
    """Return the statements that make `changes`, and those that restore them.

    `before` are executed before the changes, `last` after the restart or reload; `after` undoes them.
    """
    restart = any(setting.needs_restart for setting, _ in changes)
    by_restart = ["-- then restart the server"] if restart else [_RELOAD] if changes else []
    to_set = [*before, *(setting.set_to(value) for setting, value in changes), *by_restart, *last]
    to_restore = [*after, *(setting.restore_statement() for setting, _ in changes), *by_restart]
    lines = ["as a superuser, before the capture:", *(f"  {line}" for line in to_set)]
    lines += ["and after it, to restore what is there now:", *(f"  {line}" for line in to_restore)]
    return "\n".join([*lines, MANAGED] if changes else lines)


def _literal(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
