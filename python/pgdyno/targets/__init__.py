"""Turns a target of the plan into a running PostgreSQL.

The plan loads the schemas of its targets from this package; every other module is loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

# imported first: the schemas in this package need the plan's classes, and the plan imports the schemas
import pgdyno.plan  # noqa: F401

if TYPE_CHECKING:
    from pgdyno.targets.cluster.installation import Installation
    from pgdyno.targets.cluster.leftovers import sweep_leftovers
    from pgdyno.targets.event_actions import Acts, wait_accepting
    from pgdyno.targets.followers.archive_watch import ArchiveWatch
    from pgdyno.targets.followers.lag_watch import LagWatch
    from pgdyno.targets.followers.read_watch import ReadWatch
    from pgdyno.targets.home import Home, Progress, SilentProgress
    from pgdyno.targets.kind import Found, abilities_of, fetch_target, open_target
    from pgdyno.targets.lock import Use, WhenBusy, host_in_use
    from pgdyno.targets.server import Server

__all__ = [
    "Acts",
    "ArchiveWatch",
    "Found",
    "Home",
    "Installation",
    "LagWatch",
    "Progress",
    "ReadWatch",
    "Server",
    "SilentProgress",
    "Use",
    "WhenBusy",
    "abilities_of",
    "fetch_target",
    "host_in_use",
    "open_target",
    "sweep_leftovers",
    "wait_accepting",
]
_PLACES = {
    "cluster.installation": ("Installation",),
    "cluster.leftovers": ("sweep_leftovers",),
    "followers.archive_watch": ("ArchiveWatch",),
    "followers.lag_watch": ("LagWatch",),
    "followers.read_watch": ("ReadWatch",),
    "event_actions": ("Acts", "wait_accepting"),
    "home": ("Home", "Progress", "SilentProgress"),
    "kind": ("Found", "abilities_of", "fetch_target", "open_target"),
    "lock": ("Use", "WhenBusy", "host_in_use"),
    "server": ("Server",),
}
"""The module of each public name."""
_MODULES = {name: module for module, names in _PLACES.items() for name in names}


def __getattr__(name: str) -> object:
    """Load the module of a public name on first use (PEP 562)."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
