"""Mirrors with malformed answers: the download ends with an error of pgdyno's own."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from pgdyno.errors import TargetError
from pgdyno.targets import SilentProgress
from pgdyno.targets.embedded import fetch_and_unpack
from pgdyno.targets.embedded.fetch_and_unpack import fetch_file
from pgdyno.targets.http_requests import Patience, fetch_text

PATIENCE = Patience(timeout_s=30, attempts=2, backoff_s=0)
DIGITS = "9" * 5_000
OK = "HTTP/1.1 200 OK\r\n"


@contextmanager
def mirror(*answers: str) -> Iterator[str]:
    """Yields the URL of a server that gives these answers, one for each connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            # the client may leave early, or ask for fewer
            with suppress(OSError):
                for answer in answers:
                    connection, _ = listening.accept()
                    with connection:
                        connection.recv(65_536)
                        connection.sendall(answer.encode("latin-1"))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/x"
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(30)


def redirect(location: str) -> list[str]:
    return [f"HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n"]


FIRST = f"{OK}Content-Length: 100\r\n\r\nabc"
NEXT = f"HTTP/1.1 206 Partial\r\nContent-Range: bytes 3-9/{DIGITS}\r\nContent-Length: 3\r\n\r\nabc"


def test_malformed_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # a length that is no number
    with mirror(f"{OK}Content-Length: {DIGITS}\r\n\r\nabc") as address:
        assert fetch_text(address, PATIENCE) == "abc"
    for answers, message in (
        ([FIRST, NEXT, NEXT], "cannot fetch"),
        (redirect("http://[::1"), "cannot fetch {url}: "),
        (redirect(f"https://{'a' * 300}.example/"), "cannot fetch {url}: "),
        (redirect("https://\xad.x..y/"), "cannot fetch {url}: "),
        ([f"{OK}\r\n{'x' * 2_000}"], "more than the limit of"),
        ([f"{OK}Content-Length: 999999999999\r\n\r\n{'x' * 2_000}"], "more than the limit of"),
    ):
        monkeypatch.setattr(fetch_and_unpack, "MAX_ARCHIVE_BYTES", 1_000)
        with mirror(*answers) as url, pytest.raises(TargetError, match=message.format(url=url)):
            fetch_file(url, tmp_path / "file", PATIENCE, SilentProgress())
        assert list(tmp_path.iterdir()) == []
