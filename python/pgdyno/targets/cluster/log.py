"""What a server's log says about why it did not start."""

from __future__ import annotations

import re
from pathlib import Path

TAIL_LINES = 10
TAIL_BYTES = 64 * 1024

_WRONG_SETTINGS = "contains errors"
"""Of a configuration: what is wrong with it stands in the lines before."""
_LINE = re.compile(r"^.*?\b(LOG|WARNING|ERROR|FATAL|PANIC|DETAIL|HINT):\s+(.*)$")


def log_size(path: Path) -> int:
    """Bytes in the log so far; 0 when there is none yet."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def read_log(path: Path, offset: int = 0) -> str:
    """The log from byte `offset` on; of a long one its end."""
    try:
        with path.open("rb") as file:
            file.seek(max(offset, log_size(path) - TAIL_BYTES))
            return file.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return ""


def explain(text: str) -> str:
    """The lines of a log that say why the server died; its last lines when none does."""
    said = [(match[1], match[2]) for line in text.splitlines() if (match := _LINE.match(line))]
    fatal = [place for place, (level, _) in enumerate(said) if level in ("FATAL", "PANIC")]
    if not fatal:
        return tail(text) or "it says nothing"
    last = fatal[-1]
    if _WRONG_SETTINGS in said[last][1]:
        # every wrong line of the configuration was told of before
        reasons = [message for level, message in said[:last] if level in ("LOG", "HINT", "DETAIL")]
        return "; ".join(reasons) or said[last][1]
    message = said[last][1]
    for level, more in said[last + 1 :]:
        if level not in ("DETAIL", "HINT"):
            break
        message += f" ({more})"
    return message


def explain_whole(text: str) -> str:
    """As `explain`, and below it the log's last lines as they are: the log goes with the server."""
    reason = explain(text)
    lines = [line.strip() for line in text.splitlines()[-TAIL_LINES:] if line.strip()]
    more = [line for line in lines if _message(line) not in reason and _WRONG_SETTINGS not in line]
    return "\n  ".join([reason, "the server's log:", *more]) if more else reason


def _message(line: str) -> str:
    match = _LINE.match(line)
    return match[2] if match else line


def tail(text: str) -> str:
    """The last lines of a log, on one line."""
    return " | ".join(line.strip() for line in text.splitlines()[-TAIL_LINES:] if line.strip())
