"""Which certificates verify servers of RDS and Aurora, and in which zone of Amazon this machine is."""

import os
import time
from functools import cache
from http.client import HTTPException
from pathlib import Path
from urllib.request import ProxyHandler, Request, build_opener

from pgdyno.errors import TargetError
from pgdyno.mounts import expand_home
from pgdyno.targets.aws.databases.schema import DatabaseTarget
from pgdyno.targets.aws.schema import PROVIDER
from pgdyno.targets.home import ensure_folder, write_whole
from pgdyno.targets.http_requests import Patience, fetch_text

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
    return _request_zone((named or SERVICE).rstrip("/"))


def _is_amazons() -> bool:
    try:
        return _VENDOR.read_text().strip().startswith("Amazon EC2")
    except OSError:
        return False


def _request_zone(service: str) -> str | None:
    """Ask version 2 of the metadata service, which requires a token."""
    lasts = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
    try:
        token = _answer(Request(f"{service}/latest/api/token", headers=lasts, method="PUT"))  # noqa: S310
        path = "/latest/meta-data/placement/availability-zone"
        return _answer(Request(f"{service}{path}", headers={"X-aws-ec2-metadata-token": token}))  # noqa: S310
    except (OSError, HTTPException):
        return None


def _answer(request: Request) -> str:
    # no proxy reaches that address
    with build_opener(ProxyHandler({})).open(request, timeout=WITHIN_S) as response:
        return str(response.read().decode("ascii", "replace").strip())


BUNDLE = "https://truststore.pki.rds.amazonaws.com/global/global-bundle.pem"
GOOD_FOR_S = 30 * 86_400.0
"""Seconds until the bundle is fetched again: Amazon adds certificate authorities to it."""


def tls_root(spec: DatabaseTarget, root: Path) -> Path:
    """Return the file of root certificates for `spec`: its own, or Amazon's bundle, which is cached in the home
    `root`.

    Raises TargetError.
    """
    if spec.tls_root is not None:
        return expand_home(spec.tls_root).absolute()
    file = root / PROVIDER / "global-bundle.pem"
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
