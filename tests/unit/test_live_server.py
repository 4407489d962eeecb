"""Stored runs over HTTP: index, pages, comparisons, history; who may read, and what malformed requests get."""

import fcntl
import io
import os
import re
import shutil
import socket
import tarfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from html import escape
from pathlib import Path
from urllib.parse import quote

import pytest
import uvicorn
from starlette.testclient import TestClient

from pgdyno.analyse.history import History, HistoryPoint, change_points
from pgdyno.analyse.pairs import Metric
from pgdyno.errors import UsageError
from pgdyno.fingerprint import fingerprint_of
from pgdyno.live import control, run_index
from pgdyno.live.app import Access, make_app
from pgdyno.live.run_index import Index
from pgdyno.live.server import web_server
from pgdyno.live.server.request_guard import may_ask, owner_of
from pgdyno.live.server.web_server import Address, access_of, config_of, url_of
from pgdyno.publish.raw_files import RawFiles
from pgdyno.report.charts.history import history_chart
from pgdyno.report.charts.layout import Layout
from pgdyno.report.full_report import whole_report
from pgdyno.store import RunFolder, load_run
from tests.unit.archive_sample import MARKUP, fingerprint, many_runs, run_of
from tests.unit.store_sample import STARTED

TOKEN = "a-token-of-192-bits"


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PGDYNO_HOME", str(tmp_path / "home"))
    folder = tmp_path / "runs"
    folder.mkdir()
    return folder


@pytest.fixture
def client(runs: Path) -> Iterator[TestClient]:
    with TestClient(make_app(runs), base_url="http://localhost:8432", follow_redirects=False) as client:
        yield client


@pytest.fixture
def guarded(runs: Path) -> Iterator[TestClient]:
    app = make_app(runs, Access(TOKEN, ("bench.example",)))
    with TestClient(app, base_url="http://bench.example:8432", follow_redirects=False) as client:
        yield client


def listed(text: str) -> list[str]:
    return re.findall(r'name="run" value="([^"]*)"', text)


@pytest.mark.slow
def test_hundreds_of_runs_are_read_only_once(runs: Path, client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    names = many_runs(runs, 300)
    text = client.get("/").text
    assert listed(text) == names
    assert len(text.encode()) < 300_000

    def fail(*_: object) -> None:
        raise AssertionError("a run that has not changed is read again")

    with monkeypatch.context() as patch:
        patch.setattr(run_index, "read_entry", fail)
        assert listed(client.get("/").text) == names
        # another server uses the index that this one wrote
        assert [each.name for each in Index(runs).runs()] == names


def test_runs_that_change_or_cannot_be_read_are_read_again(runs: Path, client: TestClient) -> None:
    folder = run_of(runs)
    assert 'class="amber"' not in client.get("/").text
    folder.update_manifest(outcome="failed")
    assert '<b class="amber">failed</b>' in client.get("/").text
    # versions of odd digits, too
    for version in ("18.²", f"{'9' * 5_000}.1"):
        run_of(runs, version=version)
        assert client.get("/").status_code == 200
    (folder.path / "manifest.json").write_text("{")
    assert "it is not JSON" in client.get("/").text
    assert client.get(f"/runs/{folder.name}/index.html").status_code == 409


def test_the_index_has_what_the_report_says(runs: Path, client: TestClient) -> None:
    folder = run_of(runs, tps=500)
    assert "No report yet" in client.get("/").text
    (folder.path / "report.html").write_text(whole_report([load_run(folder.path)]).html())
    (entry,) = Index(runs).runs()
    assert entry.answer.startswith("Not valid: PostgreSQL 18.6 reaches")
    assert (entry.noise, entry.validity) == ("E", "not valid")
    assert entry.answer in client.get("/").text
    # a report from elsewhere is text, and a link is not followed
    for name in ("description", "validity", "noise"):
        (folder.path / "report.html").write_text(f'<meta name="{name}" content="{escape(MARKUP)}">')
        assert MARKUP not in client.get("/").text
    assert Index(runs).runs()[0].noise == MARKUP
    (folder.path / "report.html").unlink()
    (folder.path / "report.html").symlink_to("/etc/passwd")
    assert Index(runs).runs()[0].noise == ""


def test_a_fingerprint_leaves_out_what_is_compared_and_a_damaged_cache_is_no_harm(runs: Path, tmp_path: Path) -> None:
    run_of(runs)
    kept = tmp_path / "index.json"
    for damaged in ("", "[]", '{"made_by": [4, "0.1.0"], "runs": [{}]}', '{"made_by": [4, "0.1.0"], "runs": [7]}'):
        kept.write_text(damaged)
        assert len(Index(runs, kept).runs()) == 1
    one = run_of(runs, version="17.5", fingerprint=fingerprint(seed=1)).manifest.fingerprint
    other = run_of(runs, version="18.6", fingerprint=fingerprint(seed=2)).manifest.fingerprint
    assert fingerprint_of(one) == fingerprint_of(other) != fingerprint_of(fingerprint("Slow CPU"))


def test_a_run_and_its_files(runs: Path, client: TestClient) -> None:
    folder = run_of(runs)
    page = client.get(f"/runs/{folder.name}/index.html")
    assert page.headers["content-security-policy"].startswith("sandbox ")
    links = re.findall('href="([^"#]*)" download', page.text)
    assert links == ["raw.tar", "trials.csv"]
    for link in links:
        got = client.get(f"/runs/{folder.name}/{link}")
        assert got.status_code == 200
        assert got.headers["content-disposition"].startswith("attachment")
    assert client.get(f"/runs/{folder.name}/trials.csv").text.count("\n") == 3
    raw = io.BytesIO(client.get(f"/runs/{folder.name}/raw.tar").content)
    with tarfile.open(fileobj=raw) as tar:
        assert f"{folder.name}/manifest.json" in tar.getnames()
    # nothing but pages of the runs
    run_of(runs.parent).path.rename(runs.parent / "other")
    for path in ("../other/index.html", "..%2fother/index.html", "x/../manifest.json", "%00/raw.tar"):
        assert client.get(f"/runs/{path}").status_code == 404


def test_folders_within_folders_have_a_limit(runs: Path, client: TestClient) -> None:
    folder = run_of(runs)
    deep = folder.path.joinpath(*["a"] * 40)
    deep.mkdir(parents=True)
    (deep / "x").touch()
    assert client.get("/").status_code == 200
    assert client.get(f"/runs/{run_of(runs).name}/index.html").status_code == 200
    answer = client.get(f"/runs/{folder.name}/raw.tar")
    assert answer.status_code < 500
    assert "nested deeper than 16 folders" in answer.text


def test_two_runs_are_compared(runs: Path, client: TestClient) -> None:
    before, after = run_of(runs, tps=500), run_of(runs, hours=1, tps=1_000, fingerprint=fingerprint("Slow CPU"))
    text = client.get(f"/compare?run={after.name}&run={before.name}").text
    assert f"{after.name} vs {before.name}" in text  # the older one is the baseline
    assert "different processors" in text
    assert re.search(r"<td>\+1\d\d</td>", text)
    turned = client.get(f"/compare?base={after.name}&other={before.name}&metric=p99").text
    assert f"{before.name} vs {after.name} by p99 latency" in turned
    assert client.get(f"/compare?run={after.name}").status_code == 409
    assert client.get(f"/compare?run={after.name}&run=none").status_code == 404
    assert client.get(f"/compare?base={after.name}&other={before.name}&metric=beauty").status_code == 409


def test_names_of_others_are_text(runs: Path, client: TestClient) -> None:
    folder = run_of(runs, workload=MARKUP, notes=[MARKUP], plan_source=MARKUP, plan={"name": "x", "trial": {}})
    named = folder.path.rename(runs / "20261120T101500Z-<b>'\"&-3f9a")
    for path in ("/", f"/history?workload={MARKUP}", f"/runs/{quote(named.name)}/index.html"):
        answer = client.get(path)
        assert answer.status_code == 200
        assert MARKUP not in answer.text
        assert "<b>'" not in answer.text
        assert "<script>alert" not in answer.text


def test_a_run_goes_on_while_its_folder_is_locked_and_says_what_it_costs(runs: Path, client: TestClient) -> None:
    folder = RunFolder.open(run_of(runs).path)
    folder.update_manifest(ended_at=None, outcome=None)
    assert "Running now" not in client.get("/").text
    with (folder.path / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert f'<a href="/live/{folder.name}">' in client.get("/").text
    assert "not ended" in client.get("/").text
    # with prices in its plan, it says what it costs
    costs = {"hourly": [{"amount": 1.2, "count": 2}]}
    price = {"currency": "EUR", "date": "2026-11-01", "years": 1, "target": {"pg": costs, "other": costs}}
    priced, free = run_of(runs, plan={"name": "dear", "price": price}), run_of(runs, hours=1)
    for each in (priced, free):
        (each.path / "journal.jsonl").touch()
    assert 'data-rate="4.8" data-currency="EUR"' in client.get(f"/live/{priced.name}").text
    assert "data-rate" not in client.get(f"/live/{free.name}").text
    assert "of 2026-11-01" in client.get(f"/runs/{priced.name}/index.html").text


def test_the_history_shows_changes_of_level_and_fingerprint(runs: Path, client: TestClient) -> None:
    apart = runs / ".patterns"
    many_runs(runs, 7, like=run_of(apart, workload=MARKUP))
    faster = run_of(apart, tps=600, workload=MARKUP, fingerprint=fingerprint("Faster CPU"))
    *_, changed = many_runs(runs, 7, first=7, like=faster)
    text = client.get("/history").text
    assert "Throughput over 14 runs" in text
    assert "2 fingerprints" in text
    assert f"{escape(MARKUP)}, pg" in text.replace("&#34;", "&quot;").replace("&#39;", "&#x27;")
    assert MARKUP not in text
    (row,) = re.findall(r"<tbody>(<tr>.*?</tr>)", text, re.DOTALL)
    assert f'href="/runs/{changed}/index.html"' in row
    assert re.search(r"<b>\+(19\.\d|20\.0) %", row)
    assert "Fast CPU before, Faster CPU after" in row
    # a copy's manifest still has the name of the original
    shutil.copytree(runs / changed, runs / f"{changed}-copy")
    shutil.rmtree(runs / changed)
    assert f'href="/runs/{changed}-copy/index.html"' in client.get("/history").text
    assert text.count("<circle") == 2 * 14
    assert 'aria-labelledby="history-0-wide-title' in text
    assert "p99 latency over 14 runs" in client.get("/history?metric=p99").text.replace("P99", "p99")


def test_a_group_of_the_index_leads_to_its_history(runs: Path, client: TestClient) -> None:
    many_runs(runs, 4, like=run_of(runs / ".patterns", fingerprint=fingerprint("Slow CPU")))
    many_runs(runs, 14, first=4)
    links = re.findall(r'href="(/history\?[^"]*)"', client.get("/").text)
    large, small = (client.get(each.replace("&amp;", "&")).text for each in links)
    assert "over 14 runs" in large
    assert "its level did not change" in large
    assert "over 4 runs" in small
    assert "too few for change points" in small
    assert "over 18 runs" in client.get("/history").text


def test_single_runs_have_no_history_and_levels_changes_and_days_are_drawn(runs: Path, client: TestClient) -> None:
    for _ in ("none", "one"):
        assert "No point was measured by two" in client.get("/history").text
        run_of(runs)
    assert client.get("/history?metric=x").status_code == 409
    figures = [1_000.0] * 10 + [900.0] * 10
    points = tuple(HistoryPoint(f"run {at}", STARTED + timedelta(days=at), each, 1) for at, each in enumerate(figures))
    history = History("pg", "w", Metric.TPS, points, change_points(figures))
    for layout in (Layout.WIDE, Layout.NARROW):
        drawn = str(history_chart(history, Metric.TPS, "title", layout).render("x"))
        assert (drawn.count("<circle"), drawn.count('class="s t0"')) == (20, 2)
        for text in ("-10.0 %", "2026-11-20", "2026-12-09"):
            assert text in drawn.replace("\u2212", "-")


# ---- who may read, and malformed requests ----


def test_addresses_to_listen_on_and_to_open() -> None:
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
    with Address(port=0).listen() as listening:
        port = listening.getsockname()[1]
        assert url_of(listening) == f"http://127.0.0.1:{port}"
        with pytest.raises(UsageError, match=f"cannot listen on 127.0.0.1:{port}: address already in use"):
            Address(port=port).listen()
    with Address("0.0.0.0", 0).listen() as listening:
        assert url_of(listening) == f"http://{socket.gethostname()}:{listening.getsockname()[1]}"


def test_headers_that_name_another_host_or_are_malformed_are_refused(client: TestClient) -> None:
    for host in ("evil.example", "localhost.evil.example:8432", "127.0.0.1.evil.example", "", "[x"):
        assert client.get("/", headers={"host": host}).status_code == 421
    for host in ("localhost", "LOCALHOST:9", "127.0.0.1:8432", "[::1]:8432"):
        assert client.get("/", headers={"host": host}).status_code == 200
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


def test_pages_need_the_token_which_is_given_for_a_cookie(guarded: TestClient) -> None:
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


def test_the_owner_of_a_connection_is_known_and_requests_follow_no_symbolic_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        port = client.getsockname()[1]
        assert owner_of(port) == os.geteuid()
        assert may_ask("127.0.0.1", port)
    assert not may_ask("127.0.0.1", port)
    assert not may_ask("somebody", port)
    assert may_ask("192.0.2.7", port)
    monkeypatch.setattr(control, "is_running", lambda _run: True)
    own, linked = tmp_path / "own", tmp_path / "linked"
    (own / control.CONTROL).mkdir(parents=True)
    linked.mkdir()
    (linked / control.CONTROL).symlink_to(own)
    assert control.can_ask(own)
    assert not control.can_ask(linked)


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
