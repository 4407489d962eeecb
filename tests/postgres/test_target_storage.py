"""Caches that are full or not writable; homes that the server's user cannot reach."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pgdyno.errors import TargetError
from pgdyno.targets import Home, SilentProgress
from pgdyno.targets import home as home_module
from pgdyno.targets.cluster.installation import Installation
from pgdyno.targets.cluster.processes import PROC, servers_in
from pgdyno.targets.embedded.kind import find_embedded
from pgdyno.targets.embedded.schema import EmbeddedTarget
from pgdyno.targets.local.schema import LocalTarget
from pgdyno.targets.server_user import Account, Relation
from tests.postgres.servers import opened

if TYPE_CHECKING:
    from tests.postgres.conftest import LocalMirror

AsUnprivileged = Callable[[Callable[[], Any]], Any]


def failure(function: Callable[[], Any]) -> tuple[str, str | None]:
    """Message and hint of the TargetError that `function` raises."""
    with pytest.raises(TargetError) as caught:
        function()
    return caught.value.message, caught.value.hint


# ---- no permission ----


def test_a_home_that_cannot_be_made(as_unprivileged: AsUnprivileged, unprivileged_folder: Path) -> None:
    unprivileged_folder.chmod(0o555)
    home = unprivileged_folder / "home"
    message, hint = as_unprivileged(lambda: failure(lambda: Home.locate(home)))
    assert message == f"cannot create the folder {home}: permission denied"
    assert hint == "set PGDYNO_HOME to a folder that can be written to"


def test_a_home_that_cannot_be_written_to(
    as_unprivileged: AsUnprivileged, unprivileged_folder: Path, mirror: LocalMirror, small_archive: Callable[[], bytes]
) -> None:
    mirror.publish("18.99.0", small_archive())
    unprivileged_folder.chmod(0o555)
    spec = EmbeddedTarget(kind="embedded", version="18")

    def fetch() -> tuple[str, str | None]:
        home = Home.locate(unprivileged_folder)
        return failure(lambda: find_embedded(spec, home, SilentProgress(), mirror.environ))

    message, hint = as_unprivileged(fetch)
    assert message == f"cannot create the folder {unprivileged_folder}/downloads: permission denied"
    assert hint == "set PGDYNO_HOME to a folder that can be written to"


def test_a_closed_home(as_unprivileged: AsUnprivileged, unprivileged_folder: Path, installed: Installation) -> None:
    def start() -> tuple[str, str | None]:
        home = Home.locate(unprivileged_folder)
        unprivileged_folder.chmod(0o555)
        spec = LocalTarget(kind="local", bin=str(installed.bin))
        return failure(lambda: opened(home, spec).__enter__())

    message, hint = as_unprivileged(start)
    assert message == f"target t: cannot create the folder {unprivileged_folder}/instances: permission denied"
    assert hint == "set PGDYNO_HOME to a folder that can be written to"


def test_a_home_that_is_a_file(scratch: Path) -> None:
    (scratch / "home").write_text("")
    message, _ = failure(lambda: Home.locate(scratch / "home"))
    assert message == f"cannot use {scratch}/home: not a folder"


# ---- no space ----

SMALL = """
import subprocess, sys
from pathlib import Path
folder, kib, program = sys.argv[1:4]
subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kib}k,mode=0755", "tmpfs", folder], check=True)
exec(compile(program, "program", "exec"))
"""

FETCH = """
from pgdyno.errors import TargetError
from pgdyno.targets.embedded.schema import EmbeddedTarget
from pgdyno.targets import Home, SilentProgress
from pgdyno.targets.embedded.kind import find_embedded
home = Home.locate(Path(folder))
try:
    find_embedded(EmbeddedTarget(kind="embedded", version="18"), home, SilentProgress())
except TargetError as error:
    print(error.message, error.hint, [path.name for path in home.root.rglob("*.partial")], sep="\\n")
"""

START = """
from pgdyno.errors import TargetError
from pgdyno.targets.local.schema import LocalTarget
from pgdyno.targets import Home, SilentProgress, open_target
home = Home.locate(Path(folder))
try:
    with open_target("t", LocalTarget(kind="local", bin=sys.argv[4]), home=home, progress=SilentProgress()):
        pass
except TargetError as error:
    print(error.message, error.hint, list(home.instances.iterdir()), sep="\\n")
"""


OnSmallDisk = Callable[..., list[str]]


@pytest.fixture
def on_small_disk(child_environment: dict[str, str]) -> OnSmallDisk:
    def run(folder: Path, kib: int, program: str, *arguments: str, **environ: str) -> list[str]:
        return run_on_small_disk(folder, kib, program, arguments, {**child_environment, **environ})

    return run


def run_on_small_disk(
    folder: Path, kib: int, program: str, arguments: tuple[str, ...], environment: dict[str, str]
) -> list[str]:
    """Returns the output of a program with its own file system of `kib` KiB at `folder`."""
    # an ordinary user gets the right to mount in a namespace of its own
    ordinary = ["--user", "--map-current-user", "--keep-caps"] if os.geteuid() != 0 else []
    python = [sys.executable, "-c", SMALL, str(folder), str(kib), program, *arguments]
    done = subprocess.run(
        ["unshare", *ordinary, "--mount", *python], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_no_space_for_a_download(
    scratch: Path, mirror: LocalMirror, small_archive: Callable[[], bytes], on_small_disk: OnSmallDisk
) -> None:
    path = mirror.publish("18.99.0", small_archive())
    message, hint, partial = on_small_disk(scratch, 300, FETCH, **mirror.environ)
    name = path.rpartition("/")[2]
    assert message == f"cannot write {scratch}/downloads/{name}.partial: no space left on device"
    assert "PGDYNO_HOME" in hint
    # half of a file does not keep the disk full
    assert partial == "[]"
    assert mirror.count(path) == 1


def test_no_space_to_unpack(
    scratch: Path, mirror: LocalMirror, small_archive: Callable[[], bytes], on_small_disk: OnSmallDisk
) -> None:
    mirror.publish("18.99.0", small_archive())
    message, hint, _ = on_small_disk(scratch, 900, FETCH, **mirror.environ)
    assert message.startswith(f"cannot unpack a server into {scratch}/postgres/18.99.0-")
    assert message.endswith(": no space left on device")
    assert "PGDYNO_HOME" in hint


def test_no_space_for_a_cluster(scratch: Path, installed: Installation, on_small_disk: OnSmallDisk) -> None:
    message, hint, instances = on_small_disk(scratch, 20_000, START, str(installed.bin))
    assert message.startswith("target t: cannot create a cluster with initdb 18.")
    assert "No space left on device" in message
    assert "PGDYNO_HOME" in hint
    assert instances == "[]"


BUILD = """
from pgdyno.targets import Home, SilentProgress
from pgdyno.targets.build.cached_build import CachedBuild
from pgdyno.targets.home import FullDiskError
home = Home.locate(Path(folder))
build = CachedBuild(home, "key", Path("source"), SilentProgress(), {}, {})
fill = ["sh", "-c", "exec 2>&-; head -c 99M /dev/zero >filler"]
try:
    build.complete("words", lambda: build.run("compiling", fill, build.partial))
except FullDiskError as error:
    print(error.hint, [path.name for path in (home.root / "builds").iterdir()], sep="\\n")
"""


def test_no_space_for_a_build_whose_command_does_not_say_so(scratch: Path, on_small_disk: OnSmallDisk) -> None:
    hint, left = on_small_disk(scratch, 1_000, BUILD)
    assert "PGDYNO_HOME" in hint
    assert left == "['key.log']"


# ---- users ----


def users_of_servers(data_directory: Path) -> list[int]:
    """Returns the user of each server process, except for processes that end meanwhile."""
    found = []
    for process in servers_in(data_directory):
        with suppress(FileNotFoundError):
            found.append((PROC / str(process.pid)).stat().st_uid)
    return found


def test_an_ordinary_user_runs_servers_itself(
    as_unprivileged: AsUnprivileged, unprivileged_folder: Path, installed: Installation
) -> None:
    spec = LocalTarget(kind="local", bin=str(installed.bin))

    def run() -> tuple[str, list[int], int, bool]:
        home = Home.locate(unprivileged_folder / "home")
        with opened(home, spec) as server:
            version = server.facts().version
            uids = users_of_servers(server.data_directory)
        return version, uids, os.geteuid(), server.data_directory.exists()

    version, uids, own, left = as_unprivileged(run)
    assert version == installed.version
    assert len(uids) > 3
    assert own != 0
    assert set(uids) == {own}
    assert not left
    assert list((unprivileged_folder / "home" / "instances").iterdir()) == []


def test_servers_are_the_accounts_and_never_roots(warm_home: Home) -> None:
    spec = EmbeddedTarget(kind="embedded", version="18")
    with opened(warm_home, spec) as server:
        status = server.data_directory.stat()
        uids = set(users_of_servers(server.data_directory))
    assert uids == {warm_home.account.uid} == {status.st_uid}
    assert 0 not in uids
    assert status.st_mode & 0o777 == 0o700


def test_a_home_behind_a_closed_folder_lives_elsewhere(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(home_module, "FALLBACK", scratch / "fallback")
    other = Account("other", os.geteuid() + 1, os.getegid() + 1, Relation.OTHER)
    monkeypatch.setattr(home_module, "find_account", lambda _environ: other)
    closed = scratch / "closed"
    closed.mkdir(0o700)
    home = Home.locate(closed / "home")
    assert home.root.parent == scratch / "fallback"
    assert home.root.is_dir()
    assert home.root.stat().st_mode & 0o777 == 0o755
    # the closed folder is as it was
    assert closed.stat().st_mode & 0o777 == 0o700
    assert list(closed.iterdir()) == []
    # the same home is found again, another is another
    assert Home.locate(closed / "home").root == home.root
    assert Home.locate(closed / "other").root != home.root
    # a folder that others may change is not trusted
    home.root.chmod(0o777)
    message, _ = failure(lambda: Home.locate(closed / "home"))
    assert message == f"cannot use {home.root}: it is not a folder that only root may change"


def test_our_own_home_is_opened_to_the_servers_user(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = Account("other", os.geteuid() + 1, os.getegid() + 1, Relation.OTHER)
    monkeypatch.setattr(home_module, "find_account", lambda _environ: other)
    (scratch / "home").mkdir(0o700)
    home = Home.locate(scratch / "home")
    assert home.root == scratch / "home"
    assert home.root.stat().st_mode & 0o777 == 0o711


def test_folders_are_open_whatever_the_umask_is(scratch: Path) -> None:
    before = os.umask(0o077)
    try:
        home = Home.locate(scratch / "a" / "b")
    finally:
        os.umask(before)
    assert [path.stat().st_mode & 0o777 for path in (home.root.parent, home.root)] == [0o755, 0o755]
