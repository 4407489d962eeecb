"""The rights that a role needs to change a server with ALTER SYSTEM, and the statements that grant them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg

from pgdyno.errors import TargetError

_OLDEST_GRANTS = 150000
"""The first version with GRANT ... ON PARAMETER."""


def check_rights(connection: psycopg.Connection[tuple[Any, ...]], names: Sequence[str]) -> None:
    """Raises TargetError, with the statements that grant what is missing, unless the role may change `names`."""
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
    if not all(_has(connection, "has_parameter_privilege(%s, 'ALTER SYSTEM')", name) for name in names):
        missing.append(f"GRANT ALTER SYSTEM ON PARAMETER {', '.join(names)} TO {role}")
    missing += [
        f"GRANT EXECUTE ON FUNCTION {function} TO {role}"
        for function in ("pg_catalog.pg_reload_conf()", "pg_catalog.pg_show_all_file_settings()")
        if not _has(connection, "has_function_privilege(%s, 'EXECUTE')", function)
    ]
    if not _has(connection, "pg_has_role(%s, 'USAGE')", "pg_read_all_settings"):
        missing.append(f"GRANT pg_read_all_settings TO {role}")
    if missing:
        raise TargetError(f"the role {role} may not change these settings", hint="; ".join(missing))


def _has(connection: psycopg.Connection[tuple[Any, ...]], call: str, what: str) -> bool:
    row = connection.execute(f"SELECT pg_catalog.{call}".encode(), [what]).fetchone()
    return bool(row and row[0])
