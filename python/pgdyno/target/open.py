"""From a plan's target to a running server and back to nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from pgdyno.errors import TargetError
from pgdyno.plan.abilities import Abilities
from pgdyno.plan.targets import BuildTarget, DsnTarget, EmbeddedTarget, LocalTarget, OwnTarget
from pgdyno.target.build import find_build
from pgdyno.target.embedded import find_embedded
from pgdyno.target.home import Home
from pgdyno.target.installation import Installation
from pgdyno.target.instance import Instance
from pgdyno.target.local import find_local
from pgdyno.target.lock import Use
from pgdyno.target.network import open_network
from pgdyno.target.progress import Progress
from pgdyno.target.reach import Reached, reach
from pgdyno.target.server import Server

Found = Installation | Reached
"""What a target turns out to be: programs, or a server that answered."""


@contextmanager
def open_target(
    name: str,
    spec: OwnTarget | DsnTarget,
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
    if isinstance(spec, DsnTarget):
        assert isinstance(found, Reached)
        with ExitStack() as stack:
            with _named(name):
                server = stack.enter_context(open_network(spec, found, use or Use(), progress))
            yield server
        return
    assert isinstance(found, Installation)
    instance = Instance(name, spec, found, home, progress)
    try:
        with _named(name):
            server = instance.open()
        yield server
    finally:
        instance.close()


def fetch_target(
    name: str, spec: OwnTarget | DsnTarget, *, home: Home, progress: Progress, use: Use | None = None
) -> Found:
    """The programs of `spec`, fetched or built if need be, or its server, reached: before anything runs.

    Raises TargetError, whose message begins with the target's name.
    """
    with _named(name):
        match spec:
            case EmbeddedTarget():
                return find_embedded(spec, home, progress)
            case LocalTarget():
                return find_local(spec, home)
            case BuildTarget():
                return find_build(spec, home, progress)
            case DsnTarget():
                return reach(spec, use or Use())


def abilities_of(found: Mapping[str, Found]) -> dict[str, Abilities]:
    """What the servers over the network let us do, by the targets' names."""
    return {name: each.abilities for name, each in found.items() if isinstance(each, Reached)}


@contextmanager
def _named(target: str) -> Iterator[None]:
    try:
        yield
    except TargetError as error:
        raise TargetError(f"target {target}: {error.message}", hint=error.hint) from error
