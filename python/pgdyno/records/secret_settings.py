"""Server settings that may contain passwords, tokens or keys: connection strings and shell commands.

A superuser sees them in pg_settings. pg_basebackup -R, for example, writes a password into primary_conninfo, which
stays there when the standby is promoted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

MASK = "***"
_COMMANDS = frozenset([
    "archive_cleanup_command", "archive_command", "recovery_end_command", "restore_command", "ssl_passphrase_command",
])  # fmt: skip
_NAME = re.compile(r"(?:conninfo|connstr(?:ing)?|passphrase|passwd|password|secret|token)$", re.IGNORECASE)
_VALUE = re.compile(r"(?:passw(?:or)?d|client_secret)\s*=|://[^/\s:]*:[^/\s]*@", re.IGNORECASE)
_ASSIGNMENT = re.compile(r"\w+=")


def without_secrets(settings: Mapping[str, str]) -> dict[str, str]:
    """Return `settings` as a run keeps them."""
    return {name: kept_value(name, value) for name, value in settings.items()}


def kept_value(name: str, value: str) -> str:
    """Return `value` of the setting `name`, with a mask for all of it that may be secret: of a command, its program
    stays.
    """
    if name.lower() in _COMMANDS:
        program, *rest = value.split() or [""]
        if _ASSIGNMENT.match(program):
            return MASK
        return f"{program} {MASK}" if rest else value
    return MASK if value and (_NAME.search(name) or _VALUE.search(value)) else value
