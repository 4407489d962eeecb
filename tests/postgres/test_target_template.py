"""Clusters copied from one that initdb made: equivalent to initdb's, each with its own password."""

from typing import Any

import psycopg
import pytest

from pgdyno.targets import Home, Server, SilentProgress, open_target
from pgdyno.targets.cluster import instance as instance_module
from pgdyno.targets.cluster.initdb import init_cluster
from pgdyno.targets.embedded.schema import EmbeddedTarget
from tests.conninfo import conninfo

pytestmark = pytest.mark.long


def spec(**fields: object) -> EmbeddedTarget:
    asked = {"kind": "embedded", "version": "18", "settings": {"shared_buffers": "16MB", "fsync": "off"}}
    return EmbeddedTarget.model_validate({**asked, **fields})


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Counts the calls of initdb, with their folders."""
    calls: list[object] = []
    whole = init_cluster

    def counting(*args: Any, **options: Any) -> None:  # noqa: ANN401 - as the function has them
        calls.append(args[1])
        whole(*args, **options)

    monkeypatch.setattr(instance_module, "init_cluster", counting)
    return calls


def identifier(server: Server) -> int:
    with server.connect() as connection:
        row = connection.execute("SELECT system_identifier FROM pg_control_system()").fetchone()
    assert row is not None
    return int(row[0])


def test_a_second_cluster_is_a_copy_with_another_password(warm_home: Home, made: list[object]) -> None:
    warm_home.templates.unlink()
    progress, over_tcp = SilentProgress(), spec(connect="tcp")
    with open_target("a", over_tcp, home=warm_home, progress=progress) as first:
        known = identifier(first)
        with first.connect() as connection:
            connection.execute("CREATE TABLE only_here ()")
        with open_target("b", over_tcp, home=warm_home, progress=progress) as second:
            assert (identifier(second), len(made)) == (known, 1)
            assert second.data_directory.stat().st_mode & 0o777 == 0o700
            with second.connect() as connection:
                assert connection.execute("SELECT to_regclass('only_here')").fetchone() == (None,)
            with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
                psycopg.connect(conninfo(second), password=first.password)
    assert [path.name.count(".partial") for path in warm_home.templates.iterdir()] == [0]
    # initdb's own where it is asked for something else, or where the cluster stays
    for other in (spec(initdb=["--wal-segsize=8"]), spec(keep_data=True)):
        with open_target("c", other, home=warm_home, progress=progress) as third:
            assert identifier(third) != known
    assert len(made) == 3


def test_a_broken_template_is_no_obstacle(warm_home: Home, made: list[object]) -> None:
    warm_home.templates.unlink()
    with open_target("a", spec(), home=warm_home, progress=SilentProgress()) as server:
        known = identifier(server)
    (template,) = warm_home.templates.iterdir()
    # it is unreadable, and a killed run has left half of another
    template.chmod(0)
    template.with_name(f"{template.name}.partial").mkdir()
    with open_target("b", spec(), home=warm_home, progress=SilentProgress()) as server:
        assert identifier(server) != known
    assert len(made) == 2
    assert list(warm_home.templates.iterdir()) == [template]
    template.chmod(0o700)
