"""What a kind of pooler has to say: its program, and how it is configured and started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Protocol

from pgdyno.plan.targets import Pooler
from pgdyno.targets.server_user import Account

_KINDS = {"pgbouncer": ("pgbouncer", "PgBouncer"), "command": ("command", "Command")}
"""Module and class by the kind's name in plans."""


@dataclass(frozen=True, slots=True)
class Program:
    """A pooler that can be started."""

    path: str
    name: str
    """With its version, if it is known: `PgBouncer 1.18.0`."""
    may_prepare: bool
    """Whether it keeps the prepared statements of its clients apart."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a pooler listens, and where it finds its server."""

    folder: Path
    """Its private folder, which it is started with and which nobody else can read."""
    account: Account
    host: str
    """The folder of its socket, or an address."""
    port: int
    server_host: str
    server_port: int
    user: str
    password: str = field(repr=False)
    dbname: str


class PoolerKind(Protocol):
    """A kind of pooler; `own_pooler.OwnPooler` starts, watches and stops all of them alike."""

    def find(self, spec: Pooler) -> Program:
        """Return its program. Raises TargetError if this machine lacks it."""

    def command(self, spec: Pooler, program: Program, place: Place) -> tuple[list[str], Mapping[str, str]]:
        """Configure it, and return its command line and environment variables. Raises TargetError."""


def pooler_kind(spec: Pooler) -> PoolerKind:
    """Return the kind of `spec`."""
    module, name = _KINDS[spec.kind]
    kind: PoolerKind = getattr(import_module(f"pgdyno.targets.poolers.{module}"), name)()
    return kind
