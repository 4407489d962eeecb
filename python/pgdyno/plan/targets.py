"""The common schema of all kinds of targets. Each kind has its own class in its package in `pgdyno.targets`."""

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
"""A path in a plan file."""
_LOADER = re.compile(r"LD_\w+|PATH|BASH_ENV|ENV")
"""Environment variables that choose the code that a program runs."""


class TargetSpec(Model):
    """A target in a plan: the half of a kind that plans know.

    The other half, how pgdyno obtains its servers, is `pgdyno.targets.kind.TargetKind`.
    """

    summary: ClassVar[str] = ""
    """The kind in a few words, for errors that list all kinds: `downloaded by pgdyno`."""

    if TYPE_CHECKING:
        # each kind declares these fields itself, because manifests keep their order
        kind: str
        settings: dict[str, Setting]

    @property
    def major(self) -> int | None:
        """PostgreSQL's major version; None if only the server knows it."""
        return None

    @property
    def probed_host(self) -> SshSpec | None:
        """The SSH access to the server's host for the probe; None if it is this machine or cannot be reached."""
        return None

    def describe(self) -> str:
        """Describes the target: `PostgreSQL 18, embedded, data in tmpfs, 2 replicas`."""
        raise NotImplementedError

    def check(self, name: str, targets: Mapping[str, TargetSpec], document: Document) -> Iterator[Problem]:
        """Yields problems of this target, called `name` among `targets`, as far as the plan alone shows them.

        Settings are checked for all kinds together.
        """
        raise NotImplementedError

    def executes(self) -> Iterator[tuple[Path, str]]:
        """Returns the code that it runs on this machine: the key and a description."""
        yield from ()

    def pinned(self, version: str) -> Self:
        """Returns the target with the exact version that it had, for a resumed run."""
        del version
        return self


class Environment(Model):
    """Location of a server's files, and its environment."""

    data: str | None = None
    """Parent folder of the cluster, or "tmpfs"; None: pgdyno's home."""
    tmpfs_size: Size | None = None
    """Memory for a cluster in tmpfs."""
    wal: str | None = None
    """Parent folder of the WAL; None: with the cluster."""
    variables: dict[str, Setting] = Field(default_factory=dict)
    """Environment variables of the server."""


class Replicas(Model):
    """Streaming standbys of a server."""

    count: Positive
    synchronous: Literal["off", "remote_write", "on", "remote_apply"] = "off"
    """How long a commit waits for all of them: synchronous_commit; `off`: not at all."""


class OwnTarget(TargetSpec):
    """The common schema of servers that pgdyno starts."""

    settings: dict[str, Setting] = Field(default_factory=dict)
    """Lines of postgresql.conf."""
    initdb: list[str] = Field(default_factory=list)
    """Additional arguments of initdb."""
    keep_data: bool = False
    """Keep the cluster and its data in the cache for the next run."""
    connect: Literal["unix", "tcp"] = "unix"
    environment: Environment = Field(default_factory=Environment)
    replicas: Replicas | None = None

    def programs(self) -> str:
        """The source of its programs, in words."""
        raise NotImplementedError

    def describe(self) -> str:
        where, parts = self.environment, [self.programs()]
        parts += [f"{key} in {place}" for key, place in (("data", where.data), ("WAL", where.wal)) if place is not None]
        if self.replicas is not None:
            count, synchronous = self.replicas.count, self.replicas.synchronous
            waits = "" if synchronous == "off" else f", commits wait for {synchronous}"
            parts.append(f"{count} replica{'s' if count > 1 else ''}{waits}")
        return ", ".join(parts)

    def check(self, name: str, targets: Mapping[str, TargetSpec], document: Document) -> Iterator[Problem]:
        """Checks folders, variables and replicas."""
        del targets
        # imported here because it imports this module
        from pgdyno.plan.own_checks import check_own

        yield from check_own(("target", name), self, document)

    def executes(self) -> Iterator[tuple[Path, str]]:
        """Returns arguments of initdb and variables that choose the code to run."""
        if self.initdb:
            yield ("initdb",), shlex.join(["initdb", *self.initdb])
        for name, value in self.environment.variables.items():
            if _LOADER.fullmatch(name):
                yield ("environment", "variables", name), f"the server starts with {name}={value}"
