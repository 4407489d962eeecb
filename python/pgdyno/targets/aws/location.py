"""Where a rented server is, which certificates verify it, and in which zone of Amazon this machine is."""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass
from functools import cache
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from psycopg.conninfo import make_conninfo

from pgdyno.errors import TargetError
from pgdyno.mounts import expanded
from pgdyno.targets.aws.databases.schema import DatabaseTarget
from pgdyno.targets.aws.rental_journal import FOLDER
from pgdyno.targets.home import ensure_folder, storing, write_whole
from pgdyno.targets.http_requests import Patience, fetch_text

USER = "pgdyno"
"""The first user of new servers; a restored server has the user of its origin."""


@dataclass(frozen=True, slots=True)
class Place:
    """How to reach a running server."""

    host: str
    port: int
    user: str
    zone: str
    instance: str
    """The instance class that the server got, which may be one of `instead`."""
    version: str
    """The version that the service reports."""
    tls: str = "verify-full"
    """libpq's sslmode: `verify-ca` for a certificate that is its own authority, `disable` without one."""
    inner: str = ""
    """The server's address in its own network if that differs from `host`, else empty."""
    login: str = ""
    """The host's account for SSH; empty if nobody can log in to the host."""
    ssh_port: int = 0

    def dsn(self, passwords: Path, tls_root: Path) -> str:
        """Return a connection string without a password; libpq verifies the server's certificate if it has one."""
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
        """Return the fields as the journal stores them."""
        return asdict(self)


def keep_password(file: Path, place: Place, password: str) -> None:
    """Write the password for `place` to the password file, readable by its owner alone. Raises TargetError."""
    fields = (place.host, str(place.port), "*", place.user)
    begin = ":".join(each.replace("\\", "\\\\").replace(":", "\\:") for each in fields) + ":"
    with storing(file, "cannot write"):
        before = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        lines = [*(line for line in before if not line.startswith(begin)), f"{begin}{password}"]
        unfinished = file.with_name(f".{file.name}.{os.getpid()}")
        handle = os.open(unfinished, os.O_WRONLY | os.O_TRUNC | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write("\n".join(lines) + "\n")
        unfinished.replace(file)


SERVICE = "http://169.254.169.254"
ENDPOINT, DISABLED = "AWS_EC2_METADATA_SERVICE_ENDPOINT", "AWS_EC2_METADATA_DISABLED"
"""Environment variables of the metadata service, as boto3 has them."""
WITHIN_S = 1.0
_VENDOR = Path("/sys/class/dmi/id/sys_vendor")


@cache
def own_zone() -> str | None:
    """Return this machine's availability zone; None if it is no EC2 instance or has no metadata service."""
    if os.environ.get(DISABLED, "").lower() == "true":
        return None
    named = os.environ.get(ENDPOINT)
    # On other machines, that address is unreachable or belongs to something else.
    if named is None and not _is_amazons():
        return None
    return _request_zone(named or SERVICE)


def _is_amazons() -> bool:
    try:
        return _VENDOR.read_text().strip().startswith("Amazon EC2")
    except OSError:
        return False


def _request_zone(service: str) -> str | None:
    """Asks version 2 of the metadata service, which requires a token."""
    named = urlsplit(service)
    connection = HTTPConnection(named.hostname or "", named.port, timeout=WITHIN_S)
    try:
        token = _answer(connection, "PUT", "api/token", {"X-aws-ec2-metadata-token-ttl-seconds": "60"})
        if token is None:
            return None
        return _answer(connection, "GET", "meta-data/placement/availability-zone", {"X-aws-ec2-metadata-token": token})
    except (OSError, HTTPException):
        return None
    finally:
        connection.close()


def _answer(connection: HTTPConnection, method: str, what: str, headers: dict[str, str]) -> str | None:
    connection.request(method, f"/latest/{what}", headers=headers)
    response = connection.getresponse()
    said = response.read().decode("ascii", "replace").strip()
    return said if response.status == HTTPStatus.OK else None


BUNDLE = "https://truststore.pki.rds.amazonaws.com/global/global-bundle.pem"
GOOD_FOR_S = 30 * 86_400.0
"""Seconds until the bundle is fetched again: Amazon adds certificate authorities to it."""


def tls_root(spec: DatabaseTarget, root: Path) -> Path:
    """Return the file of root certificates for `spec`: its own, or Amazon's bundle, which is cached in the home
    `root`.

    Raises TargetError.
    """
    if spec.tls_root is not None:
        return expanded(spec.tls_root).absolute()
    file = root / FOLDER / "global-bundle.pem"
    if file.is_file() and time.time() - file.stat().st_mtime < GOOD_FOR_S:
        return file
    try:
        text = fetch_text(BUNDLE, Patience())
    except TargetError as error:
        hint = "download it in another way, and name the file: tls_root = …"
        raise TargetError(f"cannot check the server's certificate: {error.message}", hint=hint) from error
    if "-----BEGIN CERTIFICATE-----" not in text:
        raise TargetError(f"cannot check the server's certificate: {BUNDLE} did not return certificates")
    ensure_folder(file.parent)
    write_whole(file, text.encode())
    return file
