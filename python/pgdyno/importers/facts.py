"""Lines of a document that tell under which conditions its figures came about."""

from __future__ import annotations

import re

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
"""Settings that audit rules ask for."""

_LONGEST = 160
"""Longer lines are prose about a setting, not its value."""
_SETTING = re.compile(rf"^\W*(?P<name>{'|'.join(SETTINGS)})\b(?:\s*[=:]\s*|\s+|\s*\|\s*)(?P<value>['\w].*)$")
_SWEEP = (
    re.compile(r"-c\s+\w+\s+\[(?P<first>\d{1,9})\.\.(?P<last>\d{1,9})\]"),
    re.compile(r"\bclients?\s+from\s+(?P<first>\d{1,9})\s+(?:to|till|until)\s+(?P<last>\d{1,9})", re.IGNORECASE),
)
_TMPFS = re.compile(r"\btmpfs\b|\bramdisk\b|\bRAM disk\b", re.IGNORECASE)


def facts_in(text: str, line: int) -> list[Fact]:
    """What the line `text` tells: settings with their values, storage in memory, a sweep of clients."""
    if len(text) > _LONGEST:
        return []
    found = []
    setting = _SETTING.match(text)
    if setting is not None:
        found.append(Fact(line, setting["name"], text.strip()))
    if _TMPFS.search(text):
        found.append(Fact(line, "tmpfs", text.strip()))
    if any(pattern.search(text) for pattern in _SWEEP):
        found.append(Fact(line, "sweep", text.strip()))
    return found


def swept(text: str) -> tuple[int, int] | None:
    """Fewest and most clients of a line that tells of a sweep."""
    for pattern in _SWEEP:
        match = pattern.search(text)
        if match is not None:
            return int(match["first"]), int(match["last"])
    return None
