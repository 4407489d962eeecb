"""kind = "local": an existing installation."""

from pathlib import Path

import pytest

from pgdyno.errors import TargetError
from pgdyno.targets import Home
from pgdyno.targets.cluster.installation import Installation
from pgdyno.targets.local.kind import find_local
from pgdyno.targets.local.schema import LocalTarget
from tests.postgres.servers import opened


def script(path: Path, text: str, mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.parent.chmod(0o755)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(mode)
    return path


def programs(folder: Path, initdb: str = "17.2", postgres: str = "17.2") -> Path:
    script(folder / "initdb", f'echo "initdb (PostgreSQL) {initdb}"')
    script(folder / "postgres", f'echo "postgres (PostgreSQL) {postgres}"')
    return folder


def test_a_server_from_a_folder(warm_home: Home, installed: Installation) -> None:
    spec = LocalTarget(kind="local", bin=str(installed.bin), settings={"work_mem": "7MB"})
    with opened(warm_home, spec, "mine") as server:
        facts = server.facts()
    assert (facts.version, facts.settings_changed["work_mem"]) == (installed.version, "7MB")
    assert not server.data_directory.exists()


def test_a_server_that_pg_config_names(
    warm_home: Home, installed: Installation, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = script(scratch / "path" / "pg_config", f'[ "$1" = --bindir ] && echo "{installed.bin}"')
    monkeypatch.setenv("PATH", f"{config.parent}:/usr/bin:/bin")
    with opened(warm_home, LocalTarget(kind="local"), "mine") as server:
        assert server.facts().version == installed.version


def refusal(spec: LocalTarget, home: Home, **environ: str) -> TargetError:
    with pytest.raises(TargetError) as caught:
        find_local(spec, home, environ)
    return caught.value


def test_no_pg_config(fresh_home: Home, scratch: Path) -> None:
    error = refusal(LocalTarget(kind="local"), fresh_home, PATH=str(scratch))
    assert error.message == "cannot find a local PostgreSQL: there is no pg_config on the PATH"
    assert error.hint == "set bin to the folder with initdb and postgres"


def test_a_pg_config_without_a_server(fresh_home: Home, scratch: Path) -> None:
    # client libraries alone bring one too
    config = script(scratch / "path" / "pg_config", f'echo "{scratch}"')
    error = refusal(LocalTarget(kind="local"), fresh_home, PATH=str(config.parent))
    assert error.message == f"cannot find initdb in {scratch}"
    assert error.hint == f"{config} names that folder; install PostgreSQL's server, or set bin"


def test_a_pg_config_that_fails(fresh_home: Home, scratch: Path) -> None:
    config = script(scratch / "path" / "pg_config", "exit 3")
    error = refusal(LocalTarget(kind="local"), fresh_home, PATH=str(config.parent))
    assert error.message.startswith(f"cannot locate PostgreSQL with {config}: ")
    assert "exit status 3" in error.message


def test_a_folder_that_is_not_there(fresh_home: Home, scratch: Path) -> None:
    error = refusal(LocalTarget(kind="local", bin=str(scratch / "nowhere")), fresh_home)
    assert error.message == f"cannot use bin {scratch}/nowhere: there is no such folder"


@pytest.mark.parametrize(
    ("initdb", "postgres", "mode", "message"),
    [
        ("17.2", "17.2", 0o644, "cannot run {folder}/postgres as user {user}: it is not executable"),
        ("16.3", "17.2", 0o755, "cannot use {folder}: initdb is version 16.3, postgres 17.2"),
        ("9.6.24", "9.6.24", 0o755, "cannot use {folder}: PostgreSQL 9.6.24 is older than 10"),
    ],
)
def test_programs_that_cannot_be_used(
    fresh_home: Home, scratch: Path, initdb: str, postgres: str, mode: int, message: str
) -> None:
    folder = programs(scratch / "bin", initdb, postgres)
    (folder / "postgres").chmod(mode)
    error = refusal(LocalTarget(kind="local", bin=str(folder)), fresh_home)
    assert error.message == message.format(folder=folder, user=fresh_home.account.name)


@pytest.mark.parametrize("version", ["15.5 (Debian 15.5-0+deb12u1)", "19devel", "18beta1"])
def test_versions_as_distributions_write_them(fresh_home: Home, scratch: Path, version: str) -> None:
    folder = programs(scratch / "bin", initdb=version, postgres=version)
    found = find_local(LocalTarget(kind="local", bin=str(folder)), fresh_home, {})
    assert found.version == version.partition(" ")[0]
    assert found.major == int(version[:2])


def test_a_program_that_says_something_else(fresh_home: Home, scratch: Path) -> None:
    folder = programs(scratch / "bin")
    script(folder / "postgres", "echo 'error while loading shared libraries: libx.so'; exit 127")
    error = refusal(LocalTarget(kind="local", bin=str(folder)), fresh_home)
    assert error.message.endswith("--version says error while loading shared libraries: libx.so (status 127)")
