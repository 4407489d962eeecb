"""The address on which the server listens."""

from __future__ import annotations

import errno
import ipaddress
import re
import socket
from dataclasses import dataclass

from pgdyno.errors import UsageError

PORT = 8432
LOOPBACK = "127.0.0.1"
_LISTEN = re.compile(r"(?:\[(?P<v6>[0-9a-fA-F:.]+)\]|(?P<v4>[^:\s\[\]]+))?(?::(?P<port>\d{1,5}))?")


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a port; port 0 means any free one."""

    host: str = LOOPBACK
    port: int = PORT

    @property
    def is_loopback(self) -> bool:
        """Return whether only this machine can reach it."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @classmethod
    def parse(cls, text: str | None) -> Address:
        """Parse `ADDRESS`, `ADDRESS:PORT`, `[ADDRESS]:PORT` or `:PORT`; None is the loopback address. Raises
        UsageError.
        """
        match = _LISTEN.fullmatch(text or "")
        if match is None or int(match["port"] or 0) > 65_535:
            raise UsageError(f"{text!r} is not an address to listen on", hint="write it as 192.0.2.7:8432, or :8432")
        port = PORT if match["port"] is None else int(match["port"])
        return cls(match["v6"] or match["v4"] or LOOPBACK, port)

    def listen(self) -> socket.socket:
        """Return a listening socket. Raises UsageError if the address is not available."""
        try:
            kind, _, _, _, where = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)[0]
            listening = socket.socket(kind, socket.SOCK_STREAM)
            try:
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listening.bind(where)
                listening.listen(128)
            except OSError:
                listening.close()
                raise
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            hint = "--listen needs an address of this machine; use :PORT for another port, :0 for any free one"
            if error.errno == errno.EADDRINUSE:
                hint = "another pgdyno may be running there; use --listen :PORT for another port, :0 for any free one"
            raise UsageError(f"cannot listen on {self.host}:{self.port}: {why}", hint=hint) from error
        return listening


def url_of(listening: socket.socket) -> str:
    """Return the URL for a browser."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
