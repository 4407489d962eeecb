"""What is to be alike on all hosts of generators; of the standard library alone."""

from __future__ import annotations

import sys
from importlib.metadata import version

from pgdyno import __version__

REFUSED = 78
"""Exit code of a node that is not started (EX_CONFIG of sysexits.h)."""
LEASE_S = 7.0
"""A node that was not spoken to for so long ends: behind its engines (4 s and 3), and within 10 s."""

GO = b"go\n"
"""For a node that has its order."""
FOLDER = "{folder}"
"""In a command: the folder that a node makes for itself, and removes."""

NODE_FOLDER = "PGDYNO_NODE_FOLDER"
"""The variable that names it to what runs on the node."""


def python_version() -> str:
    """Ray wants the same up to the patch level's dot."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def wanted() -> dict[str, str]:
    """Versions here."""
    return {"pgdyno": __version__, "python": python_version(), "ray": version("ray")}
