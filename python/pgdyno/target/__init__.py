"""Takes a target of the plan, gives a running PostgreSQL."""

from pgdyno.target.acts import Acts, wait_accepting
from pgdyno.target.home import Home
from pgdyno.target.installation import Installation
from pgdyno.target.leftovers import sweep_leftovers
from pgdyno.target.lock import Use, WhenBusy, host_in_use
from pgdyno.target.open import Found, abilities_of, fetch_target, open_target
from pgdyno.target.progress import Progress, SilentProgress
from pgdyno.target.replication import LagWatch
from pgdyno.target.server import Server

__all__ = [
    "Acts",
    "Found",
    "Home",
    "Installation",
    "LagWatch",
    "Progress",
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
