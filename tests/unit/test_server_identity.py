"""Which server counts as one that was captured: itself after a restart or under another name, but no copy of it."""

import datetime
import socket

import pytest

from pgdyno.records.capture import ServerIdentity
from pgdyno.targets.server_identity import normal_host

START = datetime.datetime(2026, 3, 1, 8, 0, 0, 123456, tzinfo=datetime.UTC)
LATER = START + datetime.timedelta(hours=1)
CAPTURED = ServerIdentity(system_identifier="71", started_at=START, places=["10.0.0.5:5432", "db.example.net:5432"])


@pytest.mark.parametrize(
    ("identifier", "start", "places", "is_same"),
    [
        pytest.param("71", START, ["10.9.0.1:6000"], True, id="reached in another way"),
        pytest.param("71", LATER, ["db.example.net:5432"], True, id="after a restart, or a failover"),
        pytest.param("71", LATER, ["10.0.0.5:5432"], True, id="after a restart, by its address"),
        pytest.param("71", LATER, ["10.0.0.5:5433"], False, id="a promoted copy with another port"),
        pytest.param("71", LATER, ["10.0.0.6:5432"], False, id="a standby, or a restored backup, on another host"),
        pytest.param("99", LATER, ["db.example.net:5432"], False, id="another cluster in its place"),
        pytest.param(None, START, ["10.0.0.6:5432"], True, id="the same postmaster without an identifier"),
        pytest.param(None, LATER, ["10.0.0.5:5432"], True, id="the same place without an identifier"),
        pytest.param(None, LATER, ["10.0.0.6:5432"], False, id="another place without an identifier"),
        pytest.param(None, None, [], False, id="nothing known"),
    ],
)
def test_a_server_is_the_captured_one(
    identifier: str | None, start: datetime.datetime | None, places: list[str], is_same: bool
) -> None:
    found = ServerIdentity(system_identifier=identifier, started_at=start, places=places)
    assert found.is_same(CAPTURED) is is_same
    assert CAPTURED.is_same(found) is is_same


def test_a_host_has_one_name_however_it_is_written() -> None:
    here = normal_host("localhost")
    assert {normal_host(name) for name in ("", "/var/run/postgresql", "@socket", "127.0.0.1", "127.0.0.2", "::1")} == {
        here
    }
    assert normal_host("DB.Example.net.") == "db.example.net"
    # an address for documentation, which no machine has
    assert normal_host("192.0.2.7") == "192.0.2.7"
    assert socket.gethostname() not in here
