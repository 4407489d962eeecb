"""Recognises a server when it is reached again, also after a restart or under another name."""

import hashlib
import ipaddress
import socket
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg

from pgdyno.records.capture import ServerIdentity

_STARTED = """
    SELECT /* pgdyno */ (pg_catalog.date_part('epoch', pg_catalog.pg_postmaster_start_time()) * 1000000)::int8
"""
"""In microseconds: psycopg reads timestamps only with the DateStyle ISO, and a role may have another one."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_IDENTIFIER = "SELECT /* pgdyno */ system_identifier::text FROM pg_catalog.pg_control_system()"
_DIGITS = 12
"""Hexadecimal digits of a digest that stands for this machine: its ID is not to be published."""


def server_identity(connection: psycopg.Connection[tuple[Any, ...]]) -> ServerIdentity:
    """Return what identifies the server of `connection`, which is in autocommit mode. Raises psycopg.Error."""
    started = connection.execute(_STARTED).fetchone()
    identifier = None
    # a managed service may keep the control file to itself
    with suppress(psycopg.errors.InsufficientPrivilege, psycopg.errors.FeatureNotSupported):
        identifier = connection.execute(_IDENTIFIER).fetchone()
    info = connection.info
    hosts = {normal_host(info.host), normal_host(info.hostaddr or info.host)}
    return ServerIdentity(
        system_identifier=None if identifier is None else str(identifier[0]),
        started_at=None if started is None else _EPOCH + timedelta(microseconds=started[0]),
        places=sorted(f"{host}:{info.port}" for host in hosts),
    )


def normal_host(name: str) -> str:
    """Return the host `name` in one form, whatever a connection string calls it."""
    name = name.lower().rstrip(".")
    return _this_machine() if not name or name[0] in "/@" or name == "localhost" or _is_own(name) else name


def _is_own(address: str) -> bool:
    try:
        version = ipaddress.ip_address(address.partition("%")[0]).version
    except ValueError:
        return False
    try:
        with socket.socket(socket.AF_INET if version == 4 else socket.AF_INET6) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True


def _this_machine() -> str:
    try:
        machine = Path("/etc/machine-id").read_text().strip()
    except OSError:
        machine = ""
    digest = hashlib.sha256(f"pgdyno {machine or socket.gethostname()}".encode()).hexdigest()
    return f"machine-{digest[:_DIGITS]}"
