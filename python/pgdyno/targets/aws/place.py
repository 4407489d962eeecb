"""Where a rented server is, as the journal keeps it."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from psycopg.conninfo import make_conninfo

from pgdyno.targets.storage import storing

USER = "pgdyno"
"""The first user of servers that are made empty; a restored one has its own."""


@dataclass(frozen=True, slots=True)
class Place:
    """Of one server that is up."""

    host: str
    port: int
    user: str
    zone: str
    instance: str
    """The instance class that it has: of `instead`, perhaps."""
    version: str
    """As the service says it."""
    tls: str = "verify-full"
    """libpq's sslmode: `verify-ca` where the server's certificate is its own authority, `disable` without one."""
    inner: str = ""
    """The address in its own network, where that is another; else empty."""
    login: str = ""
    """The account of the host; empty where there is no host to be seen."""
    ssh_port: int = 0

    def dsn(self, passwords: Path, tls_root: Path) -> str:
        """Connection string without a password; the server's certificate is checked if there is one."""
        checked = {} if self.tls == "disable" else {"sslrootcert": str(tls_root)}
        return make_conninfo(
            host=self.host,
            port=str(self.port),
            user=self.user,
            dbname="postgres",
            passfile=str(passwords),
            sslmode=self.tls,
            **checked,
        )

    def as_kept(self) -> dict[str, Any]:
        """For the journal."""
        return asdict(self)


def keep_password(file: Path, place: Place, password: str) -> None:
    """Puts the password for `place` into the file, which nobody else may read, in place of an earlier one.

    Raises TargetError.
    """
    fields = (place.host, str(place.port), "*", place.user)
    begin = ":".join(each.replace("\\", "\\\\").replace(":", "\\:") for each in fields) + ":"
    with storing(file, "cannot write"):
        before = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        lines = [*(line for line in before if not line.startswith(begin)), f"{begin}{password}"]
        beside = file.with_name(f".{file.name}.{os.getpid()}")
        handle = os.open(beside, os.O_WRONLY | os.O_TRUNC | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write("\n".join(lines) + "\n")
        beside.replace(file)
