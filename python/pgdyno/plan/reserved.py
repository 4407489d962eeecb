"""Settings of a server that pgdyno itself chooses, so that a plan may not have them."""

from __future__ import annotations

import re

SETTING_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*(\.[A-Za-z_][A-Za-z0-9_$]*)*")

RESERVED_SETTINGS = {
    "cluster_name": "it marks the servers of pgdyno",
    "config_file": "pgdyno keeps the configuration with the cluster",
    "data_directory": "pgdyno makes the cluster in a folder of its own",
    "external_pid_file": "pgdyno knows the server's process",
    "hba_file": "pgdyno keeps the configuration with the cluster",
    "ident_file": "pgdyno keeps the configuration with the cluster",
    "listen_addresses": "pgdyno chooses it; see the target's connect",
    "log_destination": "pgdyno keeps the server's log with each trial",
    "logging_collector": "pgdyno keeps the server's log with each trial",
    "port": "pgdyno chooses a free one",
    "unix_socket_directories": "pgdyno makes a folder of its own for the socket",
    "unix_socket_group": "only pgdyno's own user may use the socket",
    "unix_socket_permissions": "only pgdyno's own user may use the socket",
}
"""Names in lower case, as the server compares them, with the reason."""


def refusal(name: str) -> str | None:
    """Why the setting `name` may not stand in a plan; None when it may."""
    if SETTING_NAME.fullmatch(name) is None or name.lower().startswith("include"):
        return "it is not the name of a setting"
    return RESERVED_SETTINGS.get(name.lower())
