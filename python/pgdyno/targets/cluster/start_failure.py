"""Finds in a server's log why the server did not start."""

from __future__ import annotations

import re
from pathlib import Path

CORRECT_SETTINGS = "correct settings in the plan"
"""The remedy of a setting that the server refuses."""
TAIL_LINES = 10
TAIL_BYTES = 64 * 1024

WRONG_SETTINGS = "contains errors"
"""PostgreSQL's summary of a wrong configuration, whose reasons are in the lines before it."""
_LINE = re.compile(r"^.*?\b(LOG|WARNING|ERROR|FATAL|PANIC|DETAIL|HINT):\s+(.*)$")


def log_size(path: Path) -> int:
    """Returns the current size of the log in bytes; 0 without a log."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def read_log(path: Path, offset: int = 0) -> str:
    """Reads the log from byte `offset` on; of a long one only the end."""
    try:
        with path.open("rb") as file:
            file.seek(max(offset, log_size(path) - TAIL_BYTES))
            return file.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return ""


def explain(text: str) -> str:
    """Returns the lines of a log that say why the server died, or its last lines."""
    said = [(match[1], match[2]) for line in text.splitlines() if (match := _LINE.match(line))]
    fatal = [place for place, (level, _) in enumerate(said) if level in ("FATAL", "PANIC")]
    if not fatal:
        return tail(text) or "it printed nothing"
    last = fatal[-1]
    if WRONG_SETTINGS in said[last][1]:
        # an earlier line reports every wrong line of the configuration
        reasons = [message for level, message in said[:last] if level in ("LOG", "HINT", "DETAIL")]
        return "; ".join(reasons) or said[last][1]
    message = said[last][1]
    for level, more in said[last + 1 :]:
        if level not in ("DETAIL", "HINT"):
            break
        message += f" ({more})"
    return message


def explain_whole(text: str) -> str:
    """Returns `explain` followed by the log's last lines, for a log that is removed with its server."""
    reason = explain(text)
    lines = [line.strip() for line in text.splitlines()[-TAIL_LINES:] if line.strip()]
    more = [line for line in lines if _message(line) not in reason and WRONG_SETTINGS not in line]
    return "\n  ".join([reason, "the server's log:", *more]) if more else reason


def _message(line: str) -> str:
    match = _LINE.match(line)
    return match[2] if match else line


def tail(text: str) -> str:
    """Returns the last lines of a log, joined to one line."""
    return " | ".join(line.strip() for line in text.splitlines()[-TAIL_LINES:] if line.strip())
