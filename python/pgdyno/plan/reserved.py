"""Settings of a server that pgdyno chooses, so that a plan may not set them."""

from __future__ import annotations

import re

SETTING_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*(\.[A-Za-z_][A-Za-z0-9_$]*)*")

RESERVED_SETTINGS = {
    "cluster_name": "it marks the servers of pgdyno",
    "config_file": "pgdyno keeps the configuration with the cluster",
    "data_directory": "pgdyno creates the cluster in its own folder",
    "external_pid_file": "pgdyno tracks the server's process",
    "hba_file": "pgdyno keeps the configuration with the cluster",
    "ident_file": "pgdyno keeps the configuration with the cluster",
    "listen_addresses": "pgdyno chooses it; see the target's connect",
    "log_destination": "pgdyno keeps the server's log with each trial",
    "logging_collector": "pgdyno keeps the server's log with each trial",
    "port": "pgdyno chooses a free one",
    "unix_socket_directories": "pgdyno creates a folder for the socket",
    "unix_socket_group": "only pgdyno's own user may use the socket",
    "unix_socket_permissions": "only pgdyno's own user may use the socket",
}
"""Names in lower case, as the server compares them, with the reason."""


def refusal(name: str) -> str | None:
    """Returns why the setting `name` is refused in a plan, or None."""
    if SETTING_NAME.fullmatch(name) is None or name.lower().startswith("include"):
        return "it is not a valid name of a setting"
    return RESERVED_SETTINGS.get(name.lower())
