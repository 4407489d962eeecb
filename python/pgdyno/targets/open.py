"""From a plan's target to a running server and back to nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pgdyno.plan.abilities import Abilities
from pgdyno.plan.targets import TargetSpec
from pgdyno.targets.home import Home
from pgdyno.targets.installation import Installation
from pgdyno.targets.kind import kind_of, named
from pgdyno.targets.lock import Use
from pgdyno.targets.progress import Progress
from pgdyno.targets.reach import Reached
from pgdyno.targets.server import Server

Found = Installation | Reached
"""What a target turns out to be: programs, or a server that answered."""


@contextmanager
def open_target(
    name: str,
    spec: TargetSpec,
    *,
    home: Home,
    progress: Progress,
    found: Found | None = None,
    use: Use | None = None,
) -> Iterator[Server]:
    """A server as `spec` wants it, with a database `pgdyno`.

    `found` is what `fetch_target` gave for `spec`; without it that is looked up now. A server that pgdyno starts
    has an empty database, and is stopped and removed behind the block; one over the network stays with its database.

    Whatever ends the block, also KeyboardInterrupt or SystemExit from a signal handler at any moment, leaves
    neither a process nor a folder, except a kept cluster. Raises TargetError, whose message begins with the
    target's name.
    """
    if found is None:
        found = fetch_target(name, spec, home=home, progress=progress, use=use)
    with kind_of(spec).open(name, spec, found, home, progress, use or Use()) as server:
        yield server


def fetch_target(name: str, spec: TargetSpec, *, home: Home, progress: Progress, use: Use | None = None) -> Found:
    """The programs of `spec`, fetched or built if need be, or its server, reached: before anything runs.

    Raises TargetError, whose message begins with the target's name.
    """
    with named(name):
        found: Found = kind_of(spec).fetch(spec, home, progress, use or Use())
    return found


def abilities_of(found: Mapping[str, Found]) -> dict[str, Abilities]:
    """What the servers over the network let us do, by the targets' names."""
    return {name: each.abilities for name, each in found.items() if isinstance(each, Reached)}
