"""Lines of a document that state the conditions of its figures."""

from __future__ import annotations

import re

from pgdyno.importers.commands import host_of, is_local
from pgdyno.importers.found import Fact

SETTINGS = (
    "autovacuum",
    "archive_mode",
    "checkpoint_timeout",
    "data_checksums",
    "fsync",
    "full_page_writes",
    "max_wal_size",
    "shared_buffers",
    "synchronous_commit",
    "wal_level",
)
"""Settings that audit rules use."""

_LONGEST = 160
"""Longer lines are prose about a setting, not its value."""
_SETTING = re.compile(rf"^\W*(?P<name>{'|'.join(SETTINGS)})\b(?:\s*[=:]\s*|\s+|\s*\|\s*)(?P<value>['\w].*)$")
_SWEEP = (
    re.compile(r"-c\s+\w+\s+\[(?P<first>\d{1,9})\.\.(?P<last>\d{1,9})\]"),
    re.compile(r"\bclients?\s+from\s+(?P<first>\d{1,9})\s+(?:to|till|until)\s+(?P<last>\d{1,9})", re.IGNORECASE),
)
_PROMPT = re.compile(
    r"\s{0,8}\[?(?:(?:postgres|pgsql)@[\w.-]{1,80}|[\w.-]{1,40}@[\w.-]{0,60}(?<![^\W\d_])(?:db|pg|postgres|postgresql)"
    r"(?:[\d_.-]|host|server|master|primary)?[\w.-]{0,40})[^$#]{0,80}[$#]\s{0,4}"
    r"(?P<command>(?:\S{0,200}/)?(?:pgbench|sysbench)\b.{0,2000})"
)
"""`[postgres@dbhost ~]$ pgbench …`: the account postgres, or a host name that indicates a server."""
_PGHOST = re.compile(r"\W{0,12}(?:export\s{1,4})?PGHOST\s{0,2}=\s{0,2}['\"]?(?P<host>[^\s'\";]{1,200})")
_TMPFS = re.compile(r"\btmpfs\b|\bramdisk\b|\bRAM disk\b", re.IGNORECASE)


def facts_in(text: str, line: int) -> list[Fact]:
    """Return the facts in the line `text`: settings with their values, storage in memory, a sweep of clients, a prompt,
    PGHOST.

    A prompt counts if it starts a load that names no other server.
    """
    found = []
    prompt = _PROMPT.match(text)
    if prompt is not None and is_local(host_of(prompt["command"]) or ""):
        found.append(Fact(line, "prompt of a server", text.strip()[:_LONGEST]))
    if len(text) > _LONGEST:
        return found
    pghost = _PGHOST.match(text)
    if pghost is not None:
        found.append(Fact(line, "PGHOST", f"PGHOST={pghost['host']}"))
    setting = _SETTING.match(text)
    if setting is not None:
        found.append(Fact(line, setting["name"], text.strip()))
    if _TMPFS.search(text):
        found.append(Fact(line, "tmpfs", text.strip()))
    if any(pattern.search(text) for pattern in _SWEEP):
        found.append(Fact(line, "sweep", text.strip()))
    return found


def swept(text: str) -> tuple[int, int] | None:
    """Return the fewest and most clients of a line that describes a sweep."""
    for pattern in _SWEEP:
        match = pattern.search(text)
        if match is not None:
            return int(match["first"]), int(match["last"])
    return None
