"""Messages of PostgreSQL's protocol, as clients and servers send them."""

import struct


def message(kind: str, body: bytes = b"") -> bytes:
    return kind.encode() + struct.pack(">I", len(body) + 4) + body


def auth(code: int, data: bytes = b"") -> bytes:
    return message("R", struct.pack(">I", code) + data)


def row(*values: bytes) -> bytes:
    body = struct.pack(">H", len(values)) + b"".join(struct.pack(">I", len(value)) + value for value in values)
    return message("D", body)


def columns(*names: str) -> bytes:
    return message("T", struct.pack(">H", len(names)) + b"".join(name.encode() + bytes(19) for name in names))


def parameter(name: str, value: str = "x") -> bytes:
    return message("S", f"{name}\0{value}\0".encode())


def refusal(text: bytes, severity: str = "ERROR", sqlstate: str = "XX000") -> bytes:
    head = f"S{severity}\0V{severity}\0C{sqlstate}\0M".encode()
    return message("E", head + text + b"\0\0")


READY = message("Z", b"I")
DONE = message("C", b"SELECT 1\0") + READY
HELLO = auth(0) + parameter("server_version", "17.4") + message("K", struct.pack(">II", 7, 7)) + READY
