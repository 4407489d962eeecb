"""The zone of this machine: asked of Amazon's metadata service, version 2, and of nothing else."""

from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from pgdyno.targets.aws import location
from tests.hosts.metadata import Handler
from tests.listening import serving


@pytest.fixture(autouse=True)
def metadata(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    zone = tmp_path / "meta-data" / "placement" / "availability-zone"
    zone.parent.mkdir(parents=True)
    zone.write_text("eu-central-1b")
    monkeypatch.setattr(Handler, "folder", tmp_path, raising=False)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    monkeypatch.setenv(location.ENDPOINT, f"http://127.0.0.1:{server.server_address[1]}")
    monkeypatch.delenv(location.DISABLED, raising=False)
    location.own_zone.cache_clear()
    with serving(server):
        yield
    location.own_zone.cache_clear()


def test_metadata_that_are_switched_off_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert location.own_zone() == "eu-central-1b"
    location.own_zone.cache_clear()
    monkeypatch.setenv(location.DISABLED, "true")
    assert location.own_zone() is None


def test_a_service_that_answers_otherwise_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Handler, "do_PUT", lambda self: self._answer(403, "no"))
    assert location.own_zone() is None
