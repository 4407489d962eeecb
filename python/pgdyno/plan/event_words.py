"""Events that a plan may cause during a trial."""

from __future__ import annotations

from difflib import get_close_matches

from pydantic import ValidationInfo

from pgdyno.units import parse_duration_s

ACTIONS = ("checkpoint", "restart", "kill", "promote", "pause", "vacuum")
DROPPING = frozenset({"restart", "kill", "promote"})
"""Events that end sessions."""
ON_PROCESSES = frozenset({"restart", "kill", "pause"})
"""Events that need the server's processes, not only a connection."""


def action(value: object) -> object:
    """Validates `do` of an event. Raises ValueError."""
    if isinstance(value, dict) and "command" in value and value.keys() <= {"command", "password"}:
        command = value["command"]
        if not isinstance(command, str) or not command.strip():
            raise ValueError('write the command as text: do = { command = "sync" }')
        if not isinstance(value.get("password", False), bool):
            raise ValueError('write password = true, and PGPASSWORD is set: do = { command = "...", password = true }')
        return value
    if value in ACTIONS:
        return value
    near = get_close_matches(value.lower(), ACTIONS, n=1) if isinstance(value, str) else []
    meant = f"did you mean {near[0]}? " if near else ""
    raise ValueError(f'is not known; {meant}write one of {", ".join(ACTIONS)}, or {{ command = "..." }}')


def patience(value: object, info: ValidationInfo) -> object:
    """Validates `trial.reconnect`; durations are in seconds, as in a resolved plan. Raises ValueError."""
    if value is None or value in ("off", "always") or info.context == "resolved":
        return value
    if not isinstance(value, str):
        raise ValueError('write "off", "always" or a time such as "30s"')
    seconds = parse_duration_s(value)
    if seconds <= 0:
        raise ValueError('must be more than 0s; to be without, write "off"')
    return seconds
