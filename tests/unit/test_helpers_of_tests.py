"""Helpers of other tests: equal words of pgbench and pgdrive, and ports that are reserved."""

import socket

import pytest

from tests.ports import reserve_port, reserved_port
from tests.postgres.pgbench_words import KNOWN, assert_same_words

KNOWN_VERSION = (15, KNOWN[15])
UNKNOWN_VERSION = (15, KNOWN[15] + 1)
OURS = 'pgbench: error: invalid value "x" for option -c/--client\npgbench: hint: Try "pgbench --help".'


def test_old_and_new_words_are_the_same() -> None:
    for version in ((15, 18), KNOWN_VERSION, UNKNOWN_VERSION, (16, 0)):
        assert_same_words(OURS, OURS, version)
        assert_same_words(OURS, OURS.replace("--client", "--clients"), version)
    # unknown words are the same in an unknown version only
    reworded = OURS.replace("invalid value", "bad value")
    assert_same_words(OURS, reworded, UNKNOWN_VERSION)
    with pytest.raises(AssertionError):
        assert_same_words(OURS, reworded, KNOWN_VERSION)
    for another in (
        OURS.replace('"x"', '"y"'),
        OURS.replace("error", "warning"),
        OURS.replace("hint: ", ""),
        OURS.partition("\n")[0],
        f"{OURS} 128",
    ):
        with pytest.raises(AssertionError):
            assert_same_words(OURS, another, UNKNOWN_VERSION)


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
