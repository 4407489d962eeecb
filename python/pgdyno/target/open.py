"""From a plan's target to a running server and back to nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pgdyno.errors import TargetError
from pgdyno.plan.model import EmbeddedTarget, LocalTarget
from pgdyno.target.embedded import find_embedded
from pgdyno.target.home import Home
from pgdyno.target.installation import Installation
from pgdyno.target.instance import Instance
from pgdyno.target.local import find_local
from pgdyno.target.progress import Progress
from pgdyno.target.server import Server


@contextmanager
def open_target(
    name: str,
    spec: EmbeddedTarget | LocalTarget,
    *,
    home: Home,
    progress: Progress,
    installation: Installation | None = None,
) -> Iterator[Server]:
    """A server as `spec` wants it, with an empty database `pgdyno`; stopped and removed behind the block.

    `installation` is what `fetch_target` gave for `spec`; without it the programs are looked up now.

    Whatever ends the block, also KeyboardInterrupt or SystemExit from a signal handler at any moment, leaves
    neither a process nor a folder, except a kept cluster. Raises TargetError, whose message begins with the
    target's name.
    """
    if installation is None:
        installation = fetch_target(name, spec, home=home, progress=progress)
    instance = Instance(name, spec, installation, home, progress)
    try:
        with _named(name):
            server = instance.open()
        yield server
    finally:
        instance.close()


def fetch_target(name: str, spec: EmbeddedTarget | LocalTarget, *, home: Home, progress: Progress) -> Installation:
    """The programs of `spec`, fetched if need be, so that what is missing is known before anything runs.

    Raises TargetError, whose message begins with the target's name.
    """
    with _named(name):
        return _find(spec, home, progress)


def _find(spec: EmbeddedTarget | LocalTarget, home: Home, progress: Progress) -> Installation:
    if isinstance(spec, EmbeddedTarget):
        return find_embedded(spec, home, progress)
    return find_local(spec, home)


@contextmanager
def _named(target: str) -> Iterator[None]:
    try:
        yield
    except TargetError as error:
        raise TargetError(f"target {target}: {error.message}", hint=error.hint) from error
