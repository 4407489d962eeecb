"""The own server of a test keeps its port while it is down, and reports why it does not start."""

import socket
from pathlib import Path

import pytest

from pgdyno.targets.cluster.installation import Installation
from tests.postgres.own_servers import OwnServer


def test_nobody_takes_the_port_of_a_server_that_is_down(installed: Installation, scratch: Path) -> None:
    own = OwnServer.make(installed, scratch / "own")
    for _ in range(2):
        with socket.socket() as other, pytest.raises(OSError, match="Address already in use"):
            other.bind(("127.0.0.1", own.port))
        own.start()
        own.stop("immediate")


def test_a_server_that_does_not_start_says_why(installed: Installation, scratch: Path) -> None:
    own = OwnServer.make(installed, scratch / "own")
    own.configure("shared_preload_libraries = 'nowhere'\n")
    with pytest.raises(AssertionError, match=r'FATAL: .*could not access file "nowhere"'):
        own.start()
