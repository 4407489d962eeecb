"""The classes in which waits of sessions are shown: PostgreSQL's types, with WAL apart and rare types together."""

from __future__ import annotations

WAIT_CLASSES = ("CPU", "I/O", "WAL", "Lock", "LWLock", "Client", "other")
"""In the order in which charts stack them, from the bottom up. tests/unit/test_wait_colours.py finds each place that
needs a colour for them.
"""
_BY_TYPE = {
    "CPU": "CPU",
    "IO": "I/O",
    "Lock": "Lock",
    "BufferPin": "Lock",
    "LWLock": "LWLock",
    "Buffer": "LWLock",
    "Client": "Client",
}
"""Buffer is PostgreSQL 19's: locks of a buffer's content, which were LWLocks, and BufferPin's wait."""
_PIN = "BufferCleanup"
SHOWN_AS_OTHER = frozenset(["Activity", "Extension", "InjectionPoint", "IPC", "Timeout"])
WAIT_TYPES = _BY_TYPE.keys() | SHOWN_AS_OTHER
"""Every type that a server of 10 to 19 reports, and CPU."""


def wait_class(wait_type: str | None, wait: str | None) -> str:
    """Return the class of a wait: writing and syncing WAL is a class of its own, apart from other I/O."""
    if wait is not None and wait.upper().startswith("WAL"):
        return "WAL"
    return "Lock" if wait == _PIN else _BY_TYPE.get(wait_type or "", "other")
