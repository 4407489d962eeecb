"""Extensions of a target: built with PGXS against Debian's server, in a copy of its programs."""

from pathlib import Path
from typing import Any

import pytest

from pgdyno.errors import TargetError
from pgdyno.plan.targets import Extension
from pgdyno.targets import Home, SilentProgress
from pgdyno.targets.build.extensions import add_extensions
from pgdyno.targets.cluster.installation import Installation
from pgdyno.targets.kind import fetch_target
from pgdyno.targets.local.kind import find_local
from pgdyno.targets.local.schema import LocalTarget
from tests.postgres.servers import execute, opened, value
from tests.small_extension import change_rounds, commit_all, git, programs_with_headers, write_extension

NAMES = "SELECT string_agg(extname || ' ' || extversion, ', ' ORDER BY extname) FROM pg_extension"


def target(*extensions: dict[str, Any], **fields: object) -> LocalTarget:
    return LocalTarget.model_validate(
        {"kind": "local", "bin": str(programs_with_headers()), "extensions": list(extensions), **fields}
    )


@pytest.fixture
def tree(scratch: Path) -> Path:
    return write_extension(scratch / "busywork", mix=10)


def test_a_server_with_an_extension(tree: Path, fresh_home: Home) -> None:
    change_rounds(tree, mix=1)
    commit = commit_all(tree)
    before = sorted(tree.rglob("*"))
    spec = target({"source": str(tree)}, settings={"shared_preload_libraries": "busywork"}, replicas={"count": 1})
    with opened(fresh_home, spec, "with") as server:
        assert value(server, NAMES) == "busywork 1.0, plpgsql 1.0"
        assert value(server, "SHOW busywork.extra_rounds") == "0"
        one_round = value(server, "SELECT busywork_mix(1)")
        assert server.facts().built == f"busywork 1.0 ({tree}, commit {commit[:12]})"
        with server.connect(server.maintenance) as connection:
            # as a reset makes it
            connection.execute("DROP DATABASE pgdyno")
            connection.execute("CREATE DATABASE pgdyno")
        assert value(server, "SELECT busywork_mix(1)") == one_round
        # the copy of the programs is complete
        server.make_replicas()
        assert value(server, "SELECT count(*) FROM pg_stat_replication") == 1
    assert sorted(tree.rglob("*")) == before
    assert git(tree, "status", "--porcelain") == ""
    # another amount of work: another build, another result
    change_rounds(tree, mix=2)
    with opened(fresh_home, target({"source": str(tree)}), "with") as server:
        assert value(server, "SELECT busywork_mix(1)") != one_round
        assert str(server.facts().built).endswith(f"commit {commit[:12]}, changed)")
    # the first again, by its commit: kept
    old = target({"source": str(tree), "commit": commit, "create": False})
    with opened(fresh_home, old, "with") as server:
        assert value(server, NAMES) == "plpgsql 1.0"
        execute(server, "CREATE EXTENSION busywork")
        assert value(server, "SELECT busywork_mix(1)") == one_round
    assert len(list((fresh_home.root / "builds").glob("*[!g]"))) == 2
    assert not (programs_with_headers().parent / "lib" / "busywork.so").exists()
    # libraries that do not load
    for settings, message in (
        ({"shared_preload_libraries": "busywrok"}, 'could not access file "busywrok"'),
        ({"shared_preload_libraries": "busywork", "busywork.fails_at_start": "on"}, "SIGABRT ended it"),
    ):
        failing = target({"source": str(tree)}, settings=settings)
        with pytest.raises(TargetError, match=message) as caught, opened(fresh_home, failing, "with"):
            pass
        assert "shared_preload_libraries" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("busywork.c", "int rounds)\n{", "int rounds)\n{ oops;", "compiling failed with status 2(?s:.*)oops"),
        ("Makefile", "include $(PGXS)", "include nothing.mk", "cleaning failed with status 2(?s:.*)nothing.mk"),
    ],
)
def test_an_extension_that_does_not_build(
    file: str, old: str, new: str, message: str, tree: Path, fresh_home: Home
) -> None:
    (tree / file).write_text((tree / file).read_text().replace(old, new))
    with pytest.raises(TargetError, match=f"target with: cannot build {tree}: {message}") as caught:
        fetch_target("with", target({"source": str(tree)}), home=fresh_home, progress=SilentProgress())
    assert str(caught.value.hint).startswith("see the whole log")
    assert [entry.suffix for entry in (fresh_home.root / "builds").iterdir()] == [".log"]


def test_what_an_extension_cannot_be_built_from(
    tree: Path, scratch: Path, fresh_home: Home, installed: Installation
) -> None:
    with pytest.raises(TargetError, match="cannot build extensions for") as caught:
        add_extensions(installed, [Extension(source=str(tree))], fresh_home, SilentProgress())
    assert f"postgresql-server-dev-{installed.major}" in str(caught.value.hint)
    found = find_local(target(), fresh_home)
    with pytest.raises(TargetError, match="there is no Makefile"):
        add_extensions(found, [Extension(source=str(scratch))], fresh_home, SilentProgress())
