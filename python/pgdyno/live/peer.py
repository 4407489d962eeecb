"""Identifies the user of a connection on the loopback address, from the kernel's tables."""

from __future__ import annotations

import ipaddress
import os
from pathlib import Path

TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))


def may_ask(host: str, port: int) -> bool:
    """Return whether the client at `host` and `port` may change something: on this machine, only this user and root.

    A client of another machine has already presented the token.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    if not (mapped or address).is_loopback:
        return True
    return owner_of(port) in (os.geteuid(), 0)


def owner_of(port: int) -> int | None:
    """Return the user whose connected socket on a loopback address has this port; None if unknown."""
    for table in TABLES:
        try:
            lines = table.read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            # sl local remote state queues timer retransmits uid
            _, local, _, state, _, _, _, uid, *_ = line.split()
            address, _, own = local.partition(":")
            if state == "01" and int(own, 16) == port and address in _LOOPBACK:
                return int(uid)
    return None


_LOOPBACK = {
    "0100007F",
    "00000000000000000000000001000000",
    "0000000000000000FFFF00000100007F",
}
"""127.0.0.1, ::1 and the former as an IPv6 address, as the kernel prints them on a little-endian machine."""
