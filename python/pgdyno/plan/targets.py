"""What all kinds of targets have in common. Each kind has a class of its own, in its package in `pgdyno.targets`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pydantic import Field

from pgdyno.errors import Problem
from pgdyno.plan.base import Model, Positive, Setting, Size
from pgdyno.plan.document import Document

if TYPE_CHECKING:
    from pgdyno.plan.ssh_words import SshSpec

Path = tuple[str | int, ...]
"""Where something stands in a plan file."""
_LOADER = re.compile(r"LD_\w+|PATH|BASH_ENV|ENV")
"""Environment variables that choose what a program runs."""


class TargetSpec(Model):
    """What a plan says of one target: the half of a kind that plans know.

    The other half, how its servers are obtained, is `pgdyno.targets.kind.TargetKind`.
    """

    summary: ClassVar[str] = ""
    """The kind in a few words, for errors that list all kinds: `fetched by pgdyno`."""

    if TYPE_CHECKING:
        # fields of every kind; each says them itself, as their order is that of manifests
        kind: str
        settings: dict[str, Setting]

    @property
    def major(self) -> int | None:
        """PostgreSQL's major version; None where only the server can tell."""
        return None

    @property
    def probed_host(self) -> SshSpec | None:
        """How to reach the server's host for the probe; None: that is this machine, or it cannot be reached."""
        return None

    def describe(self) -> str:
        """The target in words: `PostgreSQL 18, embedded, data in tmpfs, 2 replicas`."""
        raise NotImplementedError

    def check(self, name: str, targets: Mapping[str, TargetSpec], document: Document) -> Iterator[Problem]:
        """Everything of this target, called `name` among `targets`, that is wrong as far as the plan alone tells.

        Settings are checked for all kinds alike.
        """
        raise NotImplementedError

    def executes(self) -> Iterator[tuple[Path, str]]:
        """What it runs on this machine: the key, and what is run."""
        yield from ()

    def pinned(self, version: str) -> Self:
        """The same with the exact version that it turned out to have, for a run that is resumed."""
        del version
        return self


class Environment(Model):
    """Where a server's files are, and what it sees of the system."""

    data: str | None = None
    """Folder in which a folder for the cluster is made, or "tmpfs"; None: pgdyno's home."""
    tmpfs_size: Size | None = None
    """Memory that a cluster in tmpfs may take."""
    wal: str | None = None
    """Folder in which a folder for the WAL is made; None: with the cluster."""
    variables: dict[str, Setting] = Field(default_factory=dict)
    """Environment variables of the server."""


class Replicas(Model):
    """Streaming standbys of a server."""

    count: Positive
    synchronous: Literal["off", "remote_write", "on", "remote_apply"] = "off"
    """How far a commit waits for all of them: synchronous_commit; `off`: not at all."""


class OwnTarget(TargetSpec):
    """What every server that pgdyno starts itself has."""

    settings: dict[str, Setting] = Field(default_factory=dict)
    """Lines of postgresql.conf."""
    initdb: list[str] = Field(default_factory=list)
    """Further arguments of initdb."""
    keep_data: bool = False
    """Keep the cluster with its loaded data in the cache for the next run."""
    connect: Literal["unix", "tcp"] = "unix"
    environment: Environment = Field(default_factory=Environment)
    replicas: Replicas | None = None

    def programs(self) -> str:
        """Where its programs come from, in words."""
        raise NotImplementedError

    def describe(self) -> str:
        """The target in words."""
        where, parts = self.environment, [self.programs()]
        parts += [f"{key} in {place}" for key, place in (("data", where.data), ("WAL", where.wal)) if place is not None]
        if self.replicas is not None:
            count, synchronous = self.replicas.count, self.replicas.synchronous
            waits = "" if synchronous == "off" else f", commits wait for {synchronous}"
            parts.append(f"{count} replica{'s' if count > 1 else ''}{waits}")
        return ", ".join(parts)

    def check(self, name: str, targets: Mapping[str, TargetSpec], document: Document) -> Iterator[Problem]:
        """Folders, variables and replicas."""
        del targets
        # it imports this module
        from pgdyno.plan.own_checks import check_own

        yield from check_own(("target", name), self, document)

    def executes(self) -> Iterator[tuple[Path, str]]:
        """Arguments of initdb and variables that choose what is run."""
        if self.initdb:
            yield ("initdb",), shlex.join(["initdb", *self.initdb])
        for name, value in self.environment.variables.items():
            if _LOADER.fullmatch(name):
                yield ("environment", "variables", name), f"the server starts with {name}={value}"
