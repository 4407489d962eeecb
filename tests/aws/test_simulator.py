"""The simulator of AWS, where tests kill whoever asks it."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

from tests.aws.simulator import simulated


def test_a_request_that_was_cut_off_is_none() -> None:
    with simulated() as simulator:
        address = urlsplit(simulator.url)
        with socket.create_connection((address.hostname or "", address.port or 0)) as client:
            client.sendall(b"POST / HTTP/1.1\r\nHost: ec2\r\nContent-Length: 100\r\n\r\nAction=Run")
            client.shutdown(socket.SHUT_WR)
            assert client.recv(100) == b""
    assert simulator.problems == []
