"""Whose a connection on the loopback address is: the kernel knows which user opened it."""

from __future__ import annotations

import ipaddress
import os
from pathlib import Path

TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))


def may_ask(host: str, port: int) -> bool:
    """Whether who connects from `host` and `port` may change something: of this machine, this user and root only.

    Who comes from another machine has shown the token.
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
    """The user whose socket on a loopback address has this port and is connected; None where that is not known."""
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
"""127.0.0.1, ::1 and the first as an address of version 6, as the kernel prints them on a little-endian machine."""
