"""Mirrors with malformed answers: the download ends with an error of pgdyno's own."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from pgdyno.errors import TargetError
from pgdyno.targets import SilentProgress
from pgdyno.targets.cluster.installation import parse_release
from pgdyno.targets.embedded import fetch_and_unpack
from pgdyno.targets.embedded.fetch_and_unpack import fetch_file
from pgdyno.targets.embedded.maven_repository import parse_list
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


def test_a_length_that_is_no_number() -> None:
    with mirror(f"{OK}Content-Length: {DIGITS}\r\n\r\nabc") as url:
        assert fetch_text(url, PATIENCE) == "abc"


def test_a_range_that_is_no_number(tmp_path: Path) -> None:
    first = f"{OK}Content-Length: 100\r\n\r\nabc"
    rest = f"HTTP/1.1 206 Partial\r\nContent-Range: bytes 3-9/{DIGITS}\r\nContent-Length: 3\r\n\r\nabc"
    with mirror(first, rest, rest) as url, pytest.raises(TargetError, match="cannot fetch"):
        fetch_file(url, tmp_path / "file", PATIENCE, SilentProgress())


@pytest.mark.parametrize("location", ["http://[::1", f"https://{'a' * 300}.example/", "https://\xad.x..y/"])
def test_a_redirect_to_what_is_no_address(location: str) -> None:
    answer = f"HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n"
    with mirror(answer) as url, pytest.raises(TargetError, match=f"cannot fetch {url}: "):
        fetch_text(url, PATIENCE)


@pytest.mark.parametrize("length", ["", "Content-Length: 999999999999\r\n"])
def test_an_archive_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, length: str) -> None:
    monkeypatch.setattr(fetch_and_unpack, "MAX_ARCHIVE_BYTES", 1_000)
    with mirror(f"{OK}{length}\r\n{'x' * 2_000}") as url, pytest.raises(TargetError, match="more than the limit of"):
        fetch_file(url, tmp_path / "file", PATIENCE, SilentProgress())
    assert list(tmp_path.iterdir()) == []


def test_a_list_of_odd_versions() -> None:
    listed = "".join(f"<version>{each}</version>" for each in (f"18.{DIGITS}.0", "\u0663.1.0", "18.6.0"))
    assert parse_list(f"<metadata><versions>{listed}</versions></metadata>") == [parse_release("18.6.0")]


def test_a_list_without_an_end_is_read_in_time_that_grows_with_its_length() -> None:
    # four nested searches over 4 MiB would take years
    assert parse_list("<metadata <versions></versions>" * 130_000) is None
