"""In which zone this machine is: asked of Amazon's metadata service, version 2, and of nothing else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from pgdyno.target.aws import here

TOKEN = "AQAEAB=="


class _Metadata(BaseHTTPRequestHandler):
    def do_PUT(self) -> None:
        asked = self.path == "/latest/api/token" and "X-aws-ec2-metadata-token-ttl-seconds" in self.headers
        self._answer(200 if asked else 400, TOKEN)

    def do_GET(self) -> None:
        if self.headers.get("X-aws-ec2-metadata-token") != TOKEN:
            self._answer(401, "")
        elif self.path == "/latest/meta-data/placement/availability-zone":
            self._answer(200, "eu-central-1b")
        else:
            self._answer(404, "")

    def _answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(autouse=True)
def metadata(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Metadata)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    monkeypatch.setenv(here.ENDPOINT, f"http://127.0.0.1:{server.server_address[1]}")
    monkeypatch.delenv(here.DISABLED, raising=False)
    here.own_zone.cache_clear()
    yield
    server.shutdown()
    server.server_close()
    thread.join()
    here.own_zone.cache_clear()


def test_the_zone_of_this_machine() -> None:
    assert here.own_zone() == "eu-central-1b"


def test_metadata_that_are_switched_off_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(here.DISABLED, "true")
    assert here.own_zone() is None


def test_a_service_that_answers_otherwise_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Metadata, "do_PUT", lambda self: self._answer(403, "no"))
    assert here.own_zone() is None
