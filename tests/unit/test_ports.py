"""A port that the server of a test has reserved belongs to that server alone until the server ends."""

import socket

import pytest

from tests.ports import reserve_port, reserved_port


class Owner:
    """The owner of a port."""


def listen(port: int, *, reuses: bool) -> None:
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuses)
        listening.bind(("127.0.0.1", port))
        listening.listen()


def test_a_server_can_listen_where_nobody_else_can_bind() -> None:
    owner = Owner()
    port = reserve_port(owner)
    with socket.socket() as client, pytest.raises(ConnectionRefusedError):
        client.connect(("127.0.0.1", port))
    for _ in range(2):
        listen(port, reuses=True)
        with pytest.raises(OSError, match="Address already in use"):
            listen(port, reuses=False)
    del owner
    listen(port, reuses=False)
    # a block has its port until it ends
    with reserved_port() as port, pytest.raises(OSError, match="Address already in use"):
        listen(port, reuses=False)
    listen(port, reuses=False)
