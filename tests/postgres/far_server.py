"""A server that pgdyno reaches over the network alone, with a role for it, and targets that name such servers."""

from collections.abc import Iterator

import pytest

from pgdyno.targets import Found, Home, Server, SilentProgress, fetch_target
from pgdyno.targets.dsn.schema import DsnTarget
from tests.postgres.servers import execute

PASSWORD = "only in the environment"


@pytest.fixture
def theirs(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """The shared server with the role bench, whose password is in the environment."""
    monkeypatch.setenv("BENCH_PASSWORD", PASSWORD)
    execute(server, f"CREATE ROLE bench LOGIN CREATEDB PASSWORD '{PASSWORD}'")
    yield server
    with server.connect("postgres") as connection:
        for name in ("measured", "measured_template", "measured_too", "other"):
            connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)".encode())
        connection.execute("DROP SCHEMA IF EXISTS evil CASCADE; DROP OWNED BY bench; DROP ROLE bench")


def dsn(port: int) -> str:
    return f"host=127.0.0.1 port={port} user=bench sslmode=disable gssencmode=disable"


def far(port: int, **fields: object) -> DsnTarget:
    given = {"kind": "dsn", "dsn": dsn(port), "password_env": "BENCH_PASSWORD", "database": "measured"}
    return DsnTarget.model_validate({**given, **fields})


def fetch(home: Home, spec: DsnTarget) -> Found:
    """Returns the target as it is known before anything runs."""
    return fetch_target("far", spec, home=home, progress=SilentProgress())
