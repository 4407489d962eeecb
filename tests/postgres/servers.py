"""Servers that tests start in a home, what tests ask of a server, and trials that are prepared on it."""

from contextlib import AbstractContextManager
from typing import Any

from pgdyno.plan.model import Reset
from pgdyno.plan.targets import TargetSpec
from pgdyno.prepare import Preparer
from pgdyno.programs import find_engine
from pgdyno.targets import Home, Progress, Server, SilentProgress, Use, open_target
from pgdyno.targets.embedded.schema import EmbeddedTarget
from tests.present import present

QUICK = {"fsync": "off", "shared_buffers": "16MB"}


def embedded(version: str = "18", **fields: object) -> EmbeddedTarget:
    return EmbeddedTarget.model_validate({"kind": "embedded", "version": version, "settings": QUICK, **fields})


def opened(
    home: Home, spec: TargetSpec, name: str = "t", *, progress: Progress | None = None, use: Use | None = None
) -> AbstractContextManager[Server]:
    return open_target(name, spec, home=home, progress=progress or SilentProgress(), use=use)


def preparer(server: Server, *scripts: str, **reset: object) -> Preparer:
    asked = Reset.model_validate(reset)
    return Preparer(server, find_engine(), SilentProgress(), asked, set(scripts) or {"tpcb-like"})


def execute(server: Server, *statements: str, dbname: str | None = None) -> None:
    with server.connect(dbname) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def rows(server: Server, query: str, dbname: str | None = None) -> list[tuple[Any, ...]]:
    with server.connect(dbname) as connection:
        return connection.execute(query.encode()).fetchall()


def value(server: Server, query: str, dbname: str | None = None) -> Any:  # noqa: ANN401 - a column of any type
    ((found,),) = rows(server, query, dbname)
    return found


def on_replica(server: Server, query: str, number: int = 0) -> Any:  # noqa: ANN401 - a column of any type
    with server.replica_addresses()[number].connect(server.dbname) as connection:
        return present(connection.execute(query.encode()).fetchone())[0]
