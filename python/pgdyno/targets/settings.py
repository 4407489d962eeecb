"""The settings of a server: pgdyno's few, then the plan's.

Everything else stays as the server's own defaults are, for they are part of what is measured.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from pgdyno.errors import TargetError
from pgdyno.plan.reserved import refusal
from pgdyno.targets.storage import storing

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
