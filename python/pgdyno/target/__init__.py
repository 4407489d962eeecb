"""Takes a target of the plan, gives a running PostgreSQL."""

from pgdyno.target.acts import Acts, wait_accepting
from pgdyno.target.home import Home
from pgdyno.target.installation import Installation
from pgdyno.target.leftovers import sweep_leftovers
from pgdyno.target.open import fetch_target, open_target
from pgdyno.target.progress import Progress, SilentProgress
from pgdyno.target.server import Server

__all__ = [
    "Acts",
    "Home",
    "Installation",
    "Progress",
    "Server",
    "SilentProgress",
    "fetch_target",
    "open_target",
    "sweep_leftovers",
    "wait_accepting",
]
