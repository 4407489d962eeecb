"""The host on which the programs of a load run, if it is not this one, and its errors."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter

from pgdyno.errors import TargetError
from pgdyno.plan.hosts import SshSpec


@dataclass(frozen=True, slots=True)
class RemoteHost:
    ssh: SshSpec
    hosts: Mapping[str, str] = field(default_factory=dict)
    """Server addresses for use on that host, by their local addresses."""
    zone: str | None = None
    """The provider's availability zone, of a rented host."""
    instance: str | None = None
    """The rented instance type, possibly one of `instead`."""

    @classmethod
    def read(cls, file: Path) -> RemoteHost:
        return _ADAPTER.validate_json(file.read_bytes())

    def write(self, file: Path) -> None:
        """Write it for `through`; other users cannot read the file."""
        handle = os.open(file, os.O_WRONLY | os.O_TRUNC | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as stream:
            stream.write(_ADAPTER.dump_json(self))


_ADAPTER = TypeAdapter(RemoteHost)


def relay_command(file: Path) -> tuple[str, ...]:
    """Return the words that precede a program and its options to run it on the host in `file`."""
    return (sys.executable, "-m", "pgdyno.remote.relay", str(file))


class RemoteError(TargetError):
    """A host cannot be reached over SSH, or a program cannot run on it."""

    def __init__(self, message: str, *, hint: str | None = None, passing: bool = False) -> None:
        """`passing` marks an error that may disappear on a retry."""
        super().__init__(message, hint=hint)
        self.passing = passing


class CommandError(RemoteError):
    """A command ran on a host and failed, which may be passing."""

    def __init__(self, host: str, command: str, status: int, last_line: str) -> None:
        """`last_line` is that of its standard error, or empty."""
        self.status = status
        """The exit code of the command; -1 if a signal ended it."""
        self.why = last_line or f"exit code {status}"
        super().__init__(f"{host}: {command}: {self.why}", passing=True)


def not_silent(host: str, printed: str) -> RemoteError:
    """Return the error for a login shell that prints `printed` before the output of a command."""
    said = next((line for line in printed.splitlines() if line.strip()), "an empty line")
    return RemoteError(
        f"the login shell on {host} prints {said[:80]!r} before the output of commands",
        hint=f"let its start-up files (such as ~/.bashrc) print only in interactive shells; to see it: ssh {host} true",
    )
