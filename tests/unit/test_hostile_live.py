"""Malformed journals, probe lines and requests: the live page and those of stored runs continue."""

import asyncio
import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import uvicorn
from starlette.testclient import TestClient

from pgdyno.live import control
from pgdyno.live.app import make_app
from pgdyno.live.run_journal import JOURNAL
from pgdyno.live.run_reader import MOST_ARMS, MOST_CLIENTS, Tail, Watched
from pgdyno.live.server import web_server
from pgdyno.live.server.web_server import config_of
from pgdyno.live.viewers import MOST_STREAMS, MOST_STREAMS_EACH, Hub, encode_event
from tests.unit.archive_sample import run_of

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGDYNO_HOME", str(tmp_path / "home"))


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    run_of(tmp_path / "runs")
    with TestClient(make_app(tmp_path / "runs"), base_url="http://localhost:8432") as client:
        yield client


def whole(run: Path) -> dict[str, object]:
    def refuse(text: str) -> None:
        raise AssertionError(f"{text} is no JSON")

    text = encode_event("all", Watched(run).complete_state()).decode().partition("data: ")[2]
    found: dict[str, object] = json.loads(text, parse_constant=refuse)
    return found


HOSTILE_LINES = [
    "[" * 100_000,
    '{"e":' * 100_000,
    '{"e":"note","t":1,"text":{"a":[]}}',
    '{"e":"second","t":1,"tps":NaN,"p99":null,"phase":""}',
    '{"e":"second","t":1,"tps":1e999,"p99":null,"phase":""}',
    '{"e":"second","t":"x","tps":"fast","p99":[],"phase":{}}',
    '{"e":"run","t":1,"trials":[[1,"../../x","a",4],[2,"b",["c"],"d"]]}',
    '{"e":"run","t":1,"trials":7}',
    '{"e":["run"],"t":1}',
    '{"e":"ended","t":1,"outcome":"finished","tps":"x","p99":"y"}',
    '{"e":"trial","t":1,"n":[1],"total":1,"label":"x","seconds":1,"left_s":1}',
    '{"e":"health","t":1,"busy":[[[]]]}',
    '{"e":"end","t":{},"how":[],"outcome":[]}',
    "\x00\xff",
]


@pytest.mark.parametrize("line", HOSTILE_LINES)
def test_a_hostile_line_is_left_out(tmp_path: Path, line: str) -> None:
    good = '{"e":"run","t":1,"trials":[[1,"0001-a-c4","a",4]]}'
    (tmp_path / JOURNAL).write_text(f"{good}\n{line}\n" + '{"e":"note","t":2,"text":"still here"}\n', "latin-1")
    feed = whole(tmp_path)["feed"]
    assert isinstance(feed, list)
    assert feed[-1]["text"] == "still here"


def test_a_path_of_a_trial_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere" / ".x.partial"
    elsewhere.mkdir(parents=True)
    look = {"event": "blockers", "wall_us": 1_000_000, "rows": [{"blocked_by": 7, "state": "secret"}]}
    (elsewhere / "probe.jsonl").write_text(json.dumps(look) + "\n")
    run = tmp_path / "run"
    (run / ".a").mkdir(parents=True)
    lines = [
        {"e": "run", "t": 1, "trials": [[1, "a/../../elsewhere/.x", "a", 4]]},
        {"e": "trial", "t": 1, "n": 1, "total": 1, "label": "x", "seconds": 1, "left_s": 1},
    ]
    (run / JOURNAL).write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert "secret" not in json.dumps(whole(run))


def test_a_grid_has_a_limit(tmp_path: Path) -> None:
    trials = [[at + 1, f"{at}-x", f"arm {at % 3_000}", at] for at in range(9_000)]
    (tmp_path / JOURNAL).write_text(json.dumps({"e": "run", "t": 1, "trials": trials}) + "\n")
    grid = whole(tmp_path)["grid"]
    assert isinstance(grid, dict)
    assert (len(grid["arms"]), len(grid["clients"])) == (MOST_ARMS, MOST_CLIENTS)


def test_a_pipe_is_no_journal(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / JOURNAL)
    assert Tail(tmp_path / JOURNAL).lines() == []


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://[x"},
        {"origin": "http://localhost:8432", "x-pgdyno-form": "\xff\xfe"},
        {"origin": "null"},
        {"host": "[::1"},
        {"cookie": "pgdyno=\xff\x00"},
    ],
)
def test_headers_that_are_none(client: TestClient, headers: dict[str, str]) -> None:
    sent = {name: value.encode("latin-1") for name, value in headers.items()}
    answer = client.post("/live/x/ask", content=b"{}", headers=sent)  # type: ignore[arg-type]
    assert 400 <= answer.status_code < 500


def test_a_version_of_odd_digits(tmp_path: Path) -> None:
    run_of(tmp_path / "runs", version="18.²")
    run_of(tmp_path / "runs", version=f"{'9' * 5_000}.1")
    with TestClient(make_app(tmp_path / "runs"), base_url="http://localhost:8432") as client:
        assert client.get("/").status_code == 200


def test_streams_have_a_limit_by_address(tmp_path: Path) -> None:
    (tmp_path / JOURNAL).write_text('{"e":"note","t":1,"text":"x"}\n')

    async def watch() -> None:
        hub = Hub()
        streams = [hub.messages(tmp_path, "192.0.2.1") for _ in range(MOST_STREAMS_EACH)]
        for each in streams:
            assert not hub.is_full("192.0.2.1")
            await anext(each)
        assert hub.is_full("192.0.2.1")
        assert not hub.is_full("192.0.2.2")
        for each in streams:
            await each.aclose()  # type: ignore[attr-defined]
        assert not hub.is_full("192.0.2.1")
        for channel in hub._channels.values():
            if channel.task:
                channel.task.cancel()

    asyncio.run(watch())


def test_runs_that_nobody_watches_any_more_make_room(tmp_path: Path) -> None:
    async def watch() -> None:
        hub = Hub()
        for at in range(2 * MOST_STREAMS):
            run = tmp_path / str(at)
            run.mkdir()
            stream = hub.messages(run)
            await anext(stream)
            await stream.aclose()  # type: ignore[attr-defined]
        assert len(hub._channels) == MOST_STREAMS
        for channel in list(hub._channels.values()):
            channel.end()
        assert hub._channels == {}

    asyncio.run(watch())


def test_folders_within_folders_have_a_limit(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    deep = run_of(runs).path
    for _ in range(40):
        deep /= "a"
        deep.mkdir()
    (deep / "x").touch()
    name = run_of(runs).name
    with TestClient(make_app(runs), base_url="http://localhost:8432") as client:
        assert client.get("/").status_code == 200
        assert client.get(f"/runs/{name}/index.html").status_code == 200
        answer = client.get(f"/runs/{deep.relative_to(runs).parts[0]}/raw.tar")
        assert answer.status_code < 500
        assert "nested deeper than 16 folders" in answer.text


@contextmanager
def served(runs: Path) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(config_of(make_app(runs)))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


@pytest.mark.parametrize(
    "half",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ",
        b"POST /enter HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nContent-Length: 9\r\n\r\ntok",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\nGET / HTTP/1.1\r\nHost:",
    ],
)
def test_half_a_request_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, half: bytes) -> None:
    monkeypatch.setattr(web_server, "REQUEST_S", 0.3)
    with served(tmp_path) as port, closing(socket.create_connection(("127.0.0.1", port))) as sent:
        sent.sendall(half)
        sent.settimeout(60)
        while sent.recv(65_536):
            pass


def test_connections_have_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_server, "MOST_EACH", 3)
    with served(tmp_path) as port:
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
    run = run_of(tmp_path)
    with (run.path / "large").open("wb") as file:
        file.truncate(64 << 20)
    with served(tmp_path) as port, closing(socket.create_connection(("127.0.0.1", port))) as sent:
        sent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        sent.sendall(f"GET /run/{run.name}/files/large HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert lost.wait(60)


def test_requests_to_a_run_follow_no_symbolic_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "is_running", lambda _run: True)
    own, linked = tmp_path / "own", tmp_path / "linked"
    (own / control.CONTROL).mkdir(parents=True)
    linked.mkdir()
    (linked / control.CONTROL).symlink_to(own)
    assert control.can_ask(own)
    assert not control.can_ask(linked)
