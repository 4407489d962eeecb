"""kind = "local": an existing installation."""

from pathlib import Path

import pytest

from pgdyno.errors import TargetError
from pgdyno.targets import Home
from pgdyno.targets.cluster.installation import Installation
from pgdyno.targets.local.kind import find_local
from pgdyno.targets.local.schema import LocalTarget
from tests.postgres.servers import opened


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.parent.chmod(0o755)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def programs(folder: Path, initdb: str = "17.2", postgres: str | None = None) -> LocalTarget:
    script(folder / "initdb", f'echo "initdb (PostgreSQL) {initdb}"')
    script(folder / "postgres", f'echo "postgres (PostgreSQL) {postgres or initdb}"')
    return LocalTarget(kind="local", bin=str(folder))


def test_a_server_from_a_folder_or_one_that_pg_config_names(
    warm_home: Home, installed: Installation, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = find_local(LocalTarget(kind="local", bin=str(installed.bin)), warm_home)
    assert (found.bin, found.version) == (installed.bin, installed.version)
    config = script(scratch / "path" / "pg_config", f'[ "$1" = --bindir ] && echo "{installed.bin}"')
    monkeypatch.setenv("PATH", f"{config.parent}:/usr/bin:/bin")
    with opened(warm_home, LocalTarget(kind="local", settings={"work_mem": "7MB"})) as server:
        facts = server.facts()
    assert (facts.version, facts.settings_changed["work_mem"]) == (installed.version, "7MB")
    assert not server.data_directory.exists()


def rejection(spec: LocalTarget, home: Home, **environ: str) -> TargetError:
    with pytest.raises(TargetError) as caught:
        find_local(spec, home, environ)
    return caught.value


def test_pg_configs_that_lead_to_no_server(fresh_home: Home, scratch: Path) -> None:
    asked = LocalTarget(kind="local")
    error = rejection(asked, fresh_home, PATH=str(scratch))
    assert error.message == "cannot find a local PostgreSQL: there is no pg_config on the PATH"
    assert error.hint == "set bin to the folder with initdb and postgres"
    # client libraries alone bring one too
    config = script(scratch / "path" / "pg_config", f'echo "{scratch}"')
    error = rejection(asked, fresh_home, PATH=str(config.parent))
    assert error.message == f"cannot find initdb in {scratch}"
    assert error.hint == f"{config} names that folder; install PostgreSQL's server, or set bin"
    script(config, "exit 3")
    error = rejection(asked, fresh_home, PATH=str(config.parent))
    assert error.message.startswith(f"cannot locate PostgreSQL with {config}: ")
    assert "exit status 3" in error.message


def test_programs_that_cannot_be_used(fresh_home: Home, scratch: Path) -> None:
    folder = scratch / "bin"
    error = rejection(LocalTarget(kind="local", bin=str(folder)), fresh_home)
    assert error.message == f"cannot use bin {folder}: there is no such folder"
    error = rejection(programs(folder, "16.3", "17.2"), fresh_home)
    assert error.message == f"cannot use {folder}: initdb is version 16.3, postgres 17.2"
    error = rejection(programs(folder, "9.6.24"), fresh_home)
    assert error.message == f"cannot use {folder}: PostgreSQL 9.6.24 is older than 10"
    script(folder / "postgres", "echo 'error while loading shared libraries: libx.so'; exit 127")
    error = rejection(LocalTarget(kind="local", bin=str(folder)), fresh_home)
    assert error.message.endswith("--version says error while loading shared libraries: libx.so (status 127)")
    (folder / "postgres").chmod(0o644)
    error = rejection(LocalTarget(kind="local", bin=str(folder)), fresh_home)
    user = fresh_home.account.name
    assert error.message == f"cannot run {folder}/postgres as user {user}: it is not executable"


@pytest.mark.parametrize("version", ["15.5 (Debian 15.5-0+deb12u1)", "19devel", "18beta1"])
def test_versions_as_distributions_write_them(fresh_home: Home, scratch: Path, version: str) -> None:
    found = find_local(programs(scratch / "bin", version), fresh_home, {})
    assert (found.version, found.major) == (version.partition(" ")[0], int(version[:2]))
