"""Which requests may read, which may change something, and what malformed ones get."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import uvicorn
from starlette.testclient import TestClient

from pgdyno.errors import UsageError
from pgdyno.live import control
from pgdyno.live.app import Access, make_app
from pgdyno.live.server import web_server
from pgdyno.live.server.request_guard import may_ask, owner_of
from pgdyno.live.server.web_server import Address, access_of, config_of, url_of
from pgdyno.publish.raw_files import RawFiles
from tests.unit.archive_sample import run_of

TOKEN = "a-token-of-192-bits"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGDYNO_HOME", str(tmp_path / "home"))


def client_of(tmp_path: Path, access: Access | None = None, host: str = "localhost:8432") -> TestClient:
    return TestClient(make_app(tmp_path / "runs", access), base_url=f"http://{host}", follow_redirects=False)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with client_of(tmp_path) as client:
        yield client


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[TestClient]:
    with client_of(tmp_path, Access(TOKEN, ("bench.example",)), "bench.example:8432") as client:
        yield client


def test_the_address_that_was_asked_for() -> None:
    for text, host, port in (
        (None, "127.0.0.1", 8432),
        (":0", "127.0.0.1", 0),
        ("192.0.2.7", "192.0.2.7", 8432),
        ("[2001:db8::7]:80", "2001:db8::7", 80),
    ):
        assert Address.parse(text) == Address(host, port)
    for wrong in ("a:b", "host:99999", "http://x", "[x]"):
        with pytest.raises(UsageError, match="is not an address"):
            Address.parse(wrong)
    hosts = ("127.0.0.1", "::1", "localhost", "0.0.0.0", "x.example")
    assert [Address(host).is_loopback for host in hosts] == [True, True, True, False, False]
    # every address but the loopback one has a token
    assert access_of(Address()).token is None
    tokens = {access_of(Address(host)).token for host in ("0.0.0.0", "192.0.2.7", "::")}
    assert None not in tokens
    assert len(tokens) == 3


def test_the_address_to_open_and_one_that_is_taken() -> None:
    with Address(port=0).listen() as listening:
        port = listening.getsockname()[1]
        assert url_of(listening) == f"http://127.0.0.1:{port}"
        with pytest.raises(UsageError, match=f"cannot listen on 127.0.0.1:{port}: address already in use"):
            Address(port=port).listen()
    with Address("0.0.0.0", 0).listen() as listening:
        assert url_of(listening) == f"http://{socket.gethostname()}:{listening.getsockname()[1]}"


def test_a_name_that_others_turned_towards_us_is_refused(client: TestClient) -> None:
    for host in ("evil.example", "localhost.evil.example:8432", "127.0.0.1.evil.example", "", "[x"):
        assert client.get("/", headers={"host": host}).status_code == 421
    for host in ("localhost", "LOCALHOST:9", "127.0.0.1:8432", "[::1]:8432"):
        assert client.get("/", headers={"host": host}).status_code == 200


def test_without_the_token_no_page_is_served(guarded: TestClient) -> None:
    answer = guarded.get("/")
    assert (answer.status_code, answer.headers["location"]) == (303, "/enter")
    assert guarded.get("/runs/x/index.html", headers={"sec-fetch-dest": "empty"}).status_code == 401
    assert guarded.get("/", headers={"cookie": "pgdyno=wrong"}).status_code == 303
    assert guarded.get("/", headers={b"cookie": b"pgdyno=\xe9;;="}).status_code == 303
    assert guarded.get(f"/?token={TOKEN}").status_code == 303
    assert guarded.get("/enter").status_code == 200
    assert guarded.get("/static/enter.js").status_code == 200
    assert guarded.get("/static/../run").status_code in (303, 404)
    for path in ("/enter", "/", "/static/look.css", "/static/none"):
        headers = guarded.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert (headers["x-content-type-options"], headers["referrer-policy"]) == ("nosniff", "same-origin")


def test_the_token_is_given_for_a_cookie(guarded: TestClient) -> None:
    own = {"origin": "http://bench.example:8432"}
    assert guarded.post("/enter", data={"token": "wrong"}, headers=own).status_code == 401
    assert guarded.post("/enter", data={"token": TOKEN}).status_code == 403
    assert guarded.post("/enter", data={"token": TOKEN}, headers={"origin": "http://evil.example"}).status_code == 403
    assert guarded.post("/enter", content=b"x" * 5_000, headers=own).status_code == 413
    answer = guarded.post("/enter", data={"token": TOKEN}, headers=own)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "expires" not in cookie
    inside = guarded.get("/")
    assert inside.status_code == 200
    assert TOKEN not in inside.text


def test_our_pages_have_nothing_inline(client: TestClient) -> None:
    for path in ("/history", "/runs/none/index.html", "/compare"):
        text = client.get(path).text
        assert "<style" not in text
        assert " style=" not in text
        assert "<script>" not in text
        assert " on" not in [each[:3] for each in text.split("<script")[0].split('"')]
        assert "http://" not in text.replace("http://localhost", "").replace("http://www.w3.org", "")


def test_the_owner_of_a_connection_is_known() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        port = client.getsockname()[1]
        assert owner_of(port) == os.geteuid()
        assert may_ask("127.0.0.1", port)
    assert not may_ask("127.0.0.1", port)
    assert not may_ask("somebody", port)
    assert may_ask("192.0.2.7", port)


def test_headers_that_are_none(client: TestClient) -> None:
    for headers in (
        {"origin": "http://[x"},
        {"origin": "http://localhost:8432", "x-pgdyno-form": "\xff\xfe"},
        {"origin": "null"},
        {"host": "[::1"},
        {"cookie": "pgdyno=\xff\x00"},
    ):
        sent = {name: value.encode("latin-1") for name, value in headers.items()}
        answer = client.post("/live/x/ask", content=b"{}", headers=sent)  # type: ignore[arg-type]
        assert 400 <= answer.status_code < 500


@contextmanager
def serve_runs(runs: Path) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(config_of(make_app(runs)))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


def test_half_a_request_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_server, "REQUEST_S", 0.3)
    with serve_runs(tmp_path) as port:
        for half in (
            b"",
            b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ",
            b"POST /enter HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nContent-Length: 9\r\n\r\ntok",
            b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\nGET / HTTP/1.1\r\nHost:",
        ):
            with closing(socket.create_connection(("127.0.0.1", port))) as sent:
                sent.sendall(half)
                sent.settimeout(60)
                while sent.recv(65_536):
                    pass


def test_connections_have_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_server, "MOST_EACH", 3)
    with serve_runs(tmp_path) as port:
        held = [socket.create_connection(("127.0.0.1", port)) for _ in range(3)]
        for each in held:
            # wait until the server has accepted the connection
            each.sendall(b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert each.recv(65_536).startswith(b"HTTP/1.1 404")
        with closing(socket.create_connection(("127.0.0.1", port))) as refused:
            assert refused.recv(65_536).startswith(b"HTTP/1.1 503")
        for each in held:
            each.close()


def test_a_client_that_reads_nothing_is_disconnected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_server, "STALLED_S", 0.3)
    lost = threading.Event()
    end = web_server.BoundedProtocol.connection_lost

    def connection_lost(self: web_server.BoundedProtocol, exc: Exception | None) -> None:
        end(self, exc)
        lost.set()

    monkeypatch.setattr(web_server.BoundedProtocol, "connection_lost", connection_lost)
    monkeypatch.setattr(RawFiles, "write_to", lambda _raw, file: file.seek(64 << 20) and file.write(b"x"))
    run = run_of(tmp_path)
    with serve_runs(tmp_path) as port, closing(socket.create_connection(("127.0.0.1", port))) as sent:
        sent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        sent.sendall(f"GET /runs/{run.name}/raw.tar HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert lost.wait(60)


def test_requests_to_a_run_follow_no_symbolic_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "is_running", lambda _run: True)
    own, linked = tmp_path / "own", tmp_path / "linked"
    (own / control.CONTROL).mkdir(parents=True)
    linked.mkdir()
    (linked / control.CONTROL).symlink_to(own)
    assert control.can_ask(own)
    assert not control.can_ask(linked)
