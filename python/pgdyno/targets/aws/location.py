"""Where a rented server is and with which certificates it is checked, and where at Amazon this machine is."""

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
from pgdyno.targets.aws.rental_journal import FOLDER
from pgdyno.targets.aws.schema import DatabaseTarget
from pgdyno.targets.home import ensure_folder, storing, write_whole
from pgdyno.targets.web import Patience, fetch_text

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


SERVICE = "http://169.254.169.254"
ENDPOINT, DISABLED = "AWS_EC2_METADATA_SERVICE_ENDPOINT", "AWS_EC2_METADATA_DISABLED"
"""Variables that boto3 has, too."""
WITHIN_S = 1.0
_VENDOR = Path("/sys/class/dmi/id/sys_vendor")


@cache
def own_zone() -> str | None:
    """The availability zone of this machine; None where it is none of Amazon's, or its metadata are switched off."""
    if os.environ.get(DISABLED, "").lower() == "true":
        return None
    named = os.environ.get(ENDPOINT)
    # elsewhere nobody answers at that address, or somebody else does
    if named is None and not _is_amazons():
        return None
    return _asked(named or SERVICE)


def _is_amazons() -> bool:
    try:
        return _VENDOR.read_text().strip().startswith("Amazon EC2")
    except OSError:
        return False


def _asked(service: str) -> str | None:
    """By version 2 of the service, which wants a token first."""
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
"""After so long it is fetched anew: Amazon adds authorities to it."""


def tls_root(spec: DatabaseTarget, root: Path) -> Path:
    """The file of certificates for `spec`: its own, or Amazon's bundle, kept in the home `root`. Raises TargetError."""
    if spec.tls_root is not None:
        return Path(spec.tls_root).expanduser().absolute()
    file = root / FOLDER / "global-bundle.pem"
    if file.is_file() and time.time() - file.stat().st_mtime < GOOD_FOR_S:
        return file
    try:
        text = fetch_text(BUNDLE, Patience())
    except TargetError as error:
        hint = "fetch it by other means, and name the file: tls_root = …"
        raise TargetError(f"cannot check the server's certificate: {error.message}", hint=hint) from error
    if "-----BEGIN CERTIFICATE-----" not in text:
        raise TargetError(f"cannot check the server's certificate: what {BUNDLE} answers are no certificates")
    ensure_folder(file.parent)
    write_whole(file, text.encode())
    return file
