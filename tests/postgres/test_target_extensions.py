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
from tests.postgres.servers import opened, value
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
    spec = target({"source": str(tree)}, settings={"shared_preload_libraries": "busywork"})
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
    assert sorted(tree.rglob("*")) == before
    assert git(tree, "status", "--porcelain") == ""
    # another amount of work: another build, another result
    change_rounds(tree, mix=2)
    with opened(fresh_home, spec, "with") as server:
        assert value(server, "SELECT busywork_mix(1)") != one_round
        assert str(server.facts().built).endswith(f"commit {commit[:12]}, changed)")
    # the first again, by its commit: kept
    old = target({"source": str(tree), "commit": commit, "create": False})
    with opened(fresh_home, old, "with") as server:
        assert value(server, NAMES) == "plpgsql 1.0"
    assert len(list((fresh_home.root / "builds").glob("*[!g]"))) == 2
    assert not (programs_with_headers().parent / "lib" / "busywork.so").exists()


def test_a_copy_of_the_programs_is_complete(tree: Path, fresh_home: Home) -> None:
    spec = target({"source": str(tree)}, replicas={"count": 1})
    with opened(fresh_home, spec, "with") as server:
        server.make_replicas()
        assert value(server, "SELECT count(*) FROM pg_stat_replication") == 1


@pytest.mark.parametrize(
    ("change", "message", "hint"),
    [
        (
            ("busywork.c", "int rounds)\n{", "int rounds)\n{ oops;"),
            "compiling failed with status 2",
            "see the whole log",
        ),
        (("Makefile", "include $(PGXS)", "include nothing.mk"), "cleaning failed with status 2", "see the whole log"),
    ],
)
def test_an_extension_that_does_not_build(
    change: tuple[str, str, str], message: str, hint: str, tree: Path, fresh_home: Home
) -> None:
    file = tree / change[0]
    file.write_text(file.read_text().replace(change[1], change[2]))
    with pytest.raises(TargetError, match=f"target with: cannot build {tree}: {message}") as caught:
        fetch_target("with", target({"source": str(tree)}), home=fresh_home, progress=SilentProgress())
    assert "oops" in caught.value.message or "nothing.mk" in caught.value.message
    assert str(caught.value.hint).startswith(hint)
    assert [entry.suffix for entry in (fresh_home.root / "builds").iterdir()] == [".log"]


def test_programs_without_headers(tree: Path, fresh_home: Home, installed: Installation) -> None:
    with pytest.raises(TargetError, match="cannot build extensions for") as caught:
        add_extensions(installed, [Extension(source=str(tree))], fresh_home, SilentProgress())
    assert f"postgresql-server-dev-{installed.major}" in str(caught.value.hint)


def test_a_tree_that_is_no_extension(scratch: Path, fresh_home: Home) -> None:
    found = find_local(target(), fresh_home)
    with pytest.raises(TargetError, match="there is no Makefile"):
        add_extensions(found, [Extension(source=str(scratch))], fresh_home, SilentProgress())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"shared_preload_libraries": "busywrok"}, 'could not access file "busywrok"'),
        ({"shared_preload_libraries": "busywork", "busywork.fails_at_start": "on"}, "SIGABRT ended it"),
    ],
)
def test_a_library_that_does_not_load(settings: dict[str, str], message: str, tree: Path, fresh_home: Home) -> None:
    spec = target({"source": str(tree)}, settings=settings)
    with pytest.raises(TargetError) as caught, opened(fresh_home, spec, "with"):
        pass
    assert message in caught.value.message
    assert "shared_preload_libraries" in str(caught.value.hint)
