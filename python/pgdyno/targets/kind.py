"""How pgdyno obtains the servers of each kind of target."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, Generic, Protocol, TypeVar

import psycopg

from pgdyno.errors import TargetError
from pgdyno.plan.checks.targets import Abilities
from pgdyno.plan.targets import OwnTarget, TargetSpec
from pgdyno.targets.build.extensions import add_extensions
from pgdyno.targets.cluster.installation import Installation
from pgdyno.targets.cluster.instance import Instance
from pgdyno.targets.cluster.standbys import drop_slots
from pgdyno.targets.dsn.reach import Reached
from pgdyno.targets.home import Home, Progress
from pgdyno.targets.lock import Use
from pgdyno.targets.poolers.load_path import check_same_database
from pgdyno.targets.poolers.program import find_program
from pgdyno.targets.server import Server

S_contra = TypeVar("S_contra", bound=TargetSpec, contravariant=True)
O_contra = TypeVar("O_contra", bound=OwnTarget, contravariant=True)
F = TypeVar("F")


class TargetKind(Protocol[S_contra, F]):
    """The interface of `KIND` in the module `kind` next to the schema of a kind of target.

    The plan's schema (`pgdyno.plan.targets.TargetSpec`) defines the keys of such a target, with checks and
    descriptions. Rented targets have a provider instead (`pgdyno.targets.rented.provider`).
    """

    def fetch(self, spec: S_contra, home: Home, progress: Progress, use: Use) -> F:
        """Return what `spec` resolves to: programs, or the capabilities of a reachable server. Raises TargetError."""

    def open(
        self, name: str, spec: S_contra, found: F, home: Home, progress: Progress, use: Use
    ) -> AbstractContextManager[Server]:
        """Open a server for `spec` from the result of `fetch`; see `pgdyno.targets.kind.open_target`."""


@dataclass(frozen=True, slots=True)
class OwnKind(Generic[O_contra]):
    """Targets whose servers pgdyno creates and starts itself; their kinds differ in the origin of the programs."""

    find: Callable[[O_contra, Home, Progress], Installation]

    def fetch(self, spec: O_contra, home: Home, progress: Progress, use: Use) -> Installation:
        """Return the programs of `spec`, downloaded or built if necessary. Raises TargetError."""
        del use
        found = add_extensions(self.find(spec, home, progress), spec.extensions, home, progress)
        return found if spec.pooler is None else replace(found, pooler=find_program(spec.pooler))

    @contextmanager
    def open(
        self, name: str, spec: O_contra, found: Installation, home: Home, progress: Progress, use: Use
    ) -> Iterator[Server]:
        """Yield a server with an empty database; stop and remove it after the block. Raises TargetError."""
        del use
        instance = Instance(name, spec, found, home, progress)
        try:
            with name_target(name):
                server = Server(instance.open(), instance.notes, instance, built=found.built)
                server.prepare(set_password=instance.has_other_password, extensions=found.creates)
                _try_pooler(server, progress)
                if spec.keep_data:
                    drop_slots(server.address)
            yield server
        finally:
            instance.close()


def _try_pooler(server: Server, progress: Progress) -> None:
    """Start the pooler once before the first trial, which would fail with a wrong configuration."""
    if server.pooler is None:
        return
    progress.step("starting the connection pooler")
    server.start_pooler()
    with server.connect() as direct:
        check_same_database(server.pooler.path, direct)
    # each trial begins with an empty pool
    server.stop_pooler()


def kind_of(spec: TargetSpec) -> TargetKind[Any, Any]:
    """Return how pgdyno obtains the server of `spec`."""
    package = type(spec).__module__.rpartition(".")[0]
    kind: TargetKind[Any, Any] = import_module(f"{package}.kind").KIND
    return kind


@contextmanager
def name_target(target: str) -> Iterator[None]:
    """Prefixes errors of the block with the target's name."""
    try:
        yield
    except TargetError as error:
        raise type(error)(f"target {target}: {error.message}", hint=error.hint) from error
    except psycopg.Error as error:
        raise TargetError(f"target {target}: the server refused what pgdyno asked: {str(error).strip()}") from error


Found = Installation | Reached
"""What a target resolves to: programs, or the capabilities of a reachable server."""


@contextmanager
def open_target(
    name: str, spec: TargetSpec, *, home: Home, progress: Progress, found: Found | None = None, use: Use | None = None
) -> Iterator[Server]:
    """Yield a server for `spec` with a database `pgdyno`.

    `found` is the result of `fetch_target` for `spec`; without it, pgdyno fetches now. A server that pgdyno starts has
    an empty database, and is stopped and removed after the block; a server over the network keeps its database.

    However the block ends, including KeyboardInterrupt or SystemExit from a signal handler at any moment, neither a
    process nor a folder remains, except a kept cluster. Raises TargetError, whose message begins with the target's
    name.
    """
    if found is None:
        found = fetch_target(name, spec, home=home, progress=progress, use=use)
    with kind_of(spec).open(name, spec, found, home, progress, use or Use()) as server:
        yield server


def fetch_target(name: str, spec: TargetSpec, *, home: Home, progress: Progress, use: Use | None = None) -> Found:
    """Return the programs of `spec`, fetched if necessary, or connect to its server, before anything runs.

    Raises TargetError, whose message begins with the target's name.
    """
    with name_target(name):
        found: Found = kind_of(spec).fetch(spec, home, progress, use or Use())
    return found


def abilities_of(found: Mapping[str, Found]) -> dict[str, Abilities]:
    """Return what pgdyno may do on the servers over the network, and on those behind a pooler, by target name."""
    return {name: able for name, each in found.items() if (able := _abilities(each)) is not None}


def _abilities(found: Found) -> Abilities | None:
    if isinstance(found, Reached):
        return found.abilities
    if found.pooler is None:
        return None
    return Abilities(0, True, True, True, False, found.pooler.name, found.pooler.may_prepare)
