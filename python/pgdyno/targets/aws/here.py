"""Where at Amazon this machine is, if it is there at all: its own metadata service says it."""

from __future__ import annotations

import os
from functools import cache
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import urlsplit

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
