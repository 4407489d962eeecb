"""Which requests may read, and which may change something."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from pgdyno.errors import UsageError
from pgdyno.live.app import Access, make_app
from pgdyno.live.server.web_server import Address, access_of, url_of

TOKEN = "a-token-of-192-bits"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGDYNO_HOME", str(tmp_path / "home"))


def client_of(tmp_path: Path, access: Access | None = None, host: str = "localhost:8432") -> TestClient:
    return TestClient(make_app(tmp_path / "runs", access), base_url=f"http://{host}", follow_redirects=False)


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[TestClient]:
    with client_of(tmp_path, Access(TOKEN, ("bench.example",)), "bench.example:8432") as client:
        yield client


def test_the_address_that_was_asked_for() -> None:
    assert Address.parse(None) == Address("127.0.0.1", 8432)
    assert Address.parse(":0") == Address("127.0.0.1", 0)
    assert Address.parse("192.0.2.7") == Address("192.0.2.7", 8432)
    assert Address.parse("[2001:db8::7]:80") == Address("2001:db8::7", 80)
    assert [Address(host).is_loopback for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "x.example")] == [
        True,
        True,
        True,
        False,
        False,
    ]
    for wrong in ("a:b", "host:99999", "http://x", "[x]"):
        with pytest.raises(UsageError, match="is not an address"):
            Address.parse(wrong)


def test_an_address_that_is_taken() -> None:
    with Address(port=0).listen() as listening:
        port = listening.getsockname()[1]
        assert url_of(listening) == f"http://127.0.0.1:{port}"
        with pytest.raises(UsageError, match=f"cannot listen on 127.0.0.1:{port}: address already in use"):
            Address(port=port).listen()


def test_the_address_to_open_names_the_host_when_it_listens_on_all_addresses() -> None:
    with Address("0.0.0.0", 0).listen() as listening:
        assert url_of(listening) == f"http://{socket.gethostname()}:{listening.getsockname()[1]}"


def test_every_address_but_the_loopback_one_has_a_token() -> None:
    assert access_of(Address()).token is None
    tokens = {access_of(Address(host)).token for host in ("0.0.0.0", "192.0.2.7", "::")}
    assert None not in tokens
    assert len(tokens) == 3


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example:8432", "127.0.0.1.evil.example", "", "[x"])
def test_a_name_that_others_turned_towards_us_is_refused(tmp_path: Path, host: str) -> None:
    with client_of(tmp_path) as client:
        assert client.get("/", headers={"host": host}).status_code == 421


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9", "127.0.0.1:8432", "[::1]:8432"])
def test_names_and_addresses_of_ours(tmp_path: Path, host: str) -> None:
    with client_of(tmp_path) as client:
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


def test_every_answer_has_the_headers(guarded: TestClient) -> None:
    for path in ("/enter", "/", "/static/look.css", "/static/none"):
        headers = guarded.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"


def test_our_pages_have_nothing_inline(tmp_path: Path) -> None:
    with client_of(tmp_path) as client:
        for path in ("/history", "/runs/none/index.html", "/compare"):
            text = client.get(path).text
            assert "<style" not in text
            assert " style=" not in text
            assert "<script>" not in text
            assert " on" not in [each[:3] for each in text.split("<script")[0].split('"')]
            assert "http://" not in text.replace("http://localhost", "").replace("http://www.w3.org", "")
