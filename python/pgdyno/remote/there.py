"""Where the programs of a load run, when that is not here."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter

from pgdyno.plan.ssh_words import SshSpec


@dataclass(frozen=True, slots=True)
class There:
    """A host that programs of ours run on."""

    ssh: SshSpec
    hosts: Mapping[str, str] = field(default_factory=dict)
    """Servers' addresses as that host is to use them, by those that are used here."""
    zone: str | None = None
    """Amazon's availability zone, of a rented host."""
    instance: str | None = None
    """The type that was rented: of `instead`, perhaps."""

    @classmethod
    def read(cls, file: Path) -> There:
        """What `write` wrote."""
        return _ADAPTER.validate_json(file.read_bytes())

    def write(self, file: Path) -> None:
        """Keeps it for `through`; nobody else may read it."""
        handle = os.open(file, os.O_WRONLY | os.O_TRUNC | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as stream:
            stream.write(_ADAPTER.dump_json(self))


_ADAPTER = TypeAdapter(There)


def through(file: Path) -> tuple[str, ...]:
    """Words before a program and its options, with which it runs on the host that `file` names."""
    return (sys.executable, "-m", "pgdyno.remote.relay", str(file))
