"""Clusters copied from one that initdb made: equivalent to initdb's, each with its own password."""

from typing import Any

import psycopg
import pytest

from pgdyno.targets import Home
from pgdyno.targets.cluster import instance as instance_module
from pgdyno.targets.cluster.initdb import init_cluster
from tests.conninfo import conninfo
from tests.postgres.servers import embedded, execute, opened, value

pytestmark = pytest.mark.long
IDENTIFIER = "SELECT system_identifier FROM pg_control_system()"


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


def test_a_second_cluster_is_a_copy_with_another_password(warm_home: Home, made: list[object]) -> None:
    warm_home.templates.unlink()
    over_tcp = embedded(connect="tcp")
    with opened(warm_home, over_tcp, "a") as first:
        known = value(first, IDENTIFIER)
        execute(first, "CREATE TABLE only_here ()")
        with opened(warm_home, over_tcp, "b") as second:
            assert (value(second, IDENTIFIER), len(made)) == (known, 1)
            assert second.data_directory.stat().st_mode & 0o777 == 0o700
            assert value(second, "SELECT to_regclass('only_here')") is None
            with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
                psycopg.connect(conninfo(second), password=first.password)
    assert [path.name.count(".partial") for path in warm_home.templates.iterdir()] == [0]
    # initdb's own where it is asked for something else, or where the cluster stays
    for other in (embedded(initdb=["--wal-segsize=8"]), embedded(keep_data=True)):
        with opened(warm_home, other, "c") as third:
            assert value(third, IDENTIFIER) != known
    assert len(made) == 3


def test_a_broken_template_is_no_obstacle(warm_home: Home, made: list[object]) -> None:
    warm_home.templates.unlink()
    with opened(warm_home, embedded(), "a") as server:
        known = value(server, IDENTIFIER)
    (template,) = warm_home.templates.iterdir()
    # it is unreadable, and a killed run has left half of another
    template.chmod(0)
    template.with_name(f"{template.name}.partial").mkdir()
    with opened(warm_home, embedded(), "b") as server:
        assert value(server, IDENTIFIER) != known
    assert len(made) == 2
    assert list(warm_home.templates.iterdir()) == [template]
    template.chmod(0o700)
