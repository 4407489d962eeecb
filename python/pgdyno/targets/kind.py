"""How servers of one kind of target are obtained: the half of a kind that runs; the other is its schema in plans."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Generic, Protocol, TypeVar

import psycopg

from pgdyno.errors import TargetError
from pgdyno.plan.checks.targets import Abilities
from pgdyno.plan.targets import OwnTarget, TargetSpec
from pgdyno.targets.cluster.installation import Installation
from pgdyno.targets.cluster.instance import Instance
from pgdyno.targets.dsn.reach import Reached
from pgdyno.targets.home import Home, Progress
from pgdyno.targets.lock import Use
from pgdyno.targets.server import Server

S_contra = TypeVar("S_contra", bound=TargetSpec, contravariant=True)
O_contra = TypeVar("O_contra", bound=OwnTarget, contravariant=True)
F = TypeVar("F")


class TargetKind(Protocol[S_contra, F]):
    """`KIND` in the module `kind` next to the schema of a kind of target.

    What a plan says of such a target, with its checks and its words, is the schema (`pgdyno.plan.targets.TargetSpec`).
    Kinds that are rented have a provider instead (`pgdyno.targets.provider`).
    """

    def fetch(self, spec: S_contra, home: Home, progress: Progress, use: Use) -> F:
        """What `spec` turns out to be: programs, or a server that answered. Raises TargetError."""

    def open(
        self, name: str, spec: S_contra, found: F, home: Home, progress: Progress, use: Use
    ) -> AbstractContextManager[Server]:
        """A server as `spec` wants it, of what `fetch` found; as `pgdyno.targets.kind.open_target` says."""


@dataclass(frozen=True, slots=True)
class OwnKind(Generic[O_contra]):
    """Kinds whose servers pgdyno makes and starts itself. They differ in where the programs come from."""

    find: Callable[[O_contra, Home, Progress], Installation]

    def fetch(self, spec: O_contra, home: Home, progress: Progress, use: Use) -> Installation:
        """The programs of `spec`, fetched or built if need be. Raises TargetError."""
        del use
        return self.find(spec, home, progress)

    @contextmanager
    def open(
        self, name: str, spec: O_contra, found: Installation, home: Home, progress: Progress, use: Use
    ) -> Iterator[Server]:
        """A server with an empty database, stopped and removed after the block. Raises TargetError."""
        del use
        instance = Instance(name, spec, found, home, progress)
        try:
            with named(name):
                server = instance.open()
            yield server
        finally:
            instance.close()


def kind_of(spec: TargetSpec) -> TargetKind[Any, Any]:
    """How the server of `spec` is obtained."""
    package = type(spec).__module__.rpartition(".")[0]
    kind: TargetKind[Any, Any] = import_module(f"{package}.kind").KIND
    return kind


@contextmanager
def named(target: str) -> Iterator[None]:
    """Errors of the block begin with the target's name."""
    try:
        yield
    except TargetError as error:
        raise TargetError(f"target {target}: {error.message}", hint=error.hint) from error
    except psycopg.Error as error:
        raise TargetError(f"target {target}: the server refused what pgdyno asked: {str(error).strip()}") from error


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
