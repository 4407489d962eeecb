"""Caches that are full or not writable; homes that the server's user cannot reach."""

import json
import os
import pickle
import pwd
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest

from pgdyno.errors import TargetError
from pgdyno.targets import Home, Server, SilentProgress
from pgdyno.targets import home as home_module
from pgdyno.targets.cluster.installation import Installation
from pgdyno.targets.cluster.processes import PROC, servers_in
from pgdyno.targets.embedded.kind import find_embedded
from pgdyno.targets.local.schema import LocalTarget
from pgdyno.targets.server_user import Account, Relation
from tests.postgres.local_mirror import LocalMirror
from tests.postgres.servers import embedded, opened

T = TypeVar("T")


def as_unprivileged(function: Callable[[], T]) -> T:
    """Returns the result of `function` as an unprivileged user: root's is that of a fork, because `nobody` may not be
    able to read the files of modules.
    """
    if os.geteuid() != 0:
        return function()
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        # later Pythons warn of threads: the mirror's are not needed in the child
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        os.close(reader)
        _report(function, writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        result, error = pickle.loads(stream.read())
    os.waitpid(pid, 0)
    if error is not None:
        raise error
    return result  # type: ignore[no-any-return]


def _report(function: Callable[[], object], writer: int) -> None:
    answer: tuple[object, BaseException | None]
    try:
        nobody = pwd.getpwnam("nobody")
        os.setgroups([])
        os.setgid(nobody.pw_gid)
        os.setuid(nobody.pw_uid)
        os.chdir("/")
        answer = (function(), None)
    except BaseException as error:
        traceback.print_exc()
        answer = (None, error)
    with os.fdopen(writer, "wb") as stream:
        stream.write(pickle.dumps(answer))
    os._exit(0)


@pytest.fixture
def own_folder(scratch: Path) -> Path:
    folder = scratch / "own"
    folder.mkdir()
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    return folder


def failure(function: Callable[[], Any]) -> tuple[str, str | None]:
    with pytest.raises(TargetError) as caught:
        function()
    return caught.value.message, caught.value.hint


def test_homes_that_cannot_be_written_to(own_folder: Path, mirror: LocalMirror, installed: Installation) -> None:
    mirror.publish()
    own_folder.chmod(0o555)

    def use() -> list[tuple[str, str | None]]:
        home = Home.locate(own_folder)
        local = LocalTarget(kind="local", bin=str(installed.bin))
        return [
            failure(lambda: Home.locate(own_folder / "home")),
            failure(lambda: find_embedded(embedded(), home, SilentProgress(), mirror.environ)),
            failure(lambda: opened(home, local).__enter__()),
        ]

    said = as_unprivileged(use)
    cannot = f"cannot create the folder {own_folder}"
    messages = [f"{cannot}/home", f"{cannot}/downloads", f"target t: {cannot}/instances"]
    assert [message for message, _ in said] == [f"{each}: permission denied" for each in messages]
    assert {hint for _, hint in said} == {"set PGDYNO_HOME to a folder that can be written to"}


SMALL = """
import json, subprocess, sys
from pathlib import Path
from pgdyno.errors import TargetError
from pgdyno.targets import Home, SilentProgress, open_target
from pgdyno.targets.build.cached_build import CachedBuild
from pgdyno.targets.embedded.kind import find_embedded
from pgdyno.targets.embedded.schema import EmbeddedTarget
from pgdyno.targets.local.schema import LocalTarget

def fetch(home):
    find_embedded(EmbeddedTarget(kind="embedded", version="18"), home, SilentProgress())

def start(home):
    with open_target("t", LocalTarget(kind="local", bin=sys.argv[2]), home=home, progress=SilentProgress()):
        pass

def build(home):
    build = CachedBuild(home, "key", Path("source"), SilentProgress(), {}, {})
    # a command that does not say so
    fill = ["sh", "-c", "exec 2>&-; head -c 99M /dev/zero >filler"]
    build.complete("words", lambda: build.run("compiling", fill, build.partial))

for kib, work in ((100, fetch), (220, fetch), (20_000, start), (1_000, build)):
    folder = Path(sys.argv[1]) / str(kib)
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kib}k,mode=0755", "tmpfs", str(folder)], check=True)
    home = Home.locate(folder)
    try:
        work(home)
    except TargetError as error:
        left = [path.name for path in (*home.root.rglob("*.partial"), *home.root.glob("[bi]*/*"))]
        print(json.dumps([error.message, error.hint, left]))
"""


def test_no_space(
    scratch: Path, mirror: LocalMirror, installed: Installation, child_environment: dict[str, str]
) -> None:
    path = mirror.publish()
    # an ordinary user gets the right to mount in a namespace of its own
    ordinary = ["--user", "--map-current-user", "--keep-caps"] if os.geteuid() != 0 else []
    done = subprocess.run(
        ["unshare", *ordinary, "--mount", sys.executable, "-c", SMALL, str(scratch), str(installed.bin)],
        capture_output=True, text=True, check=False, env={**child_environment, **mirror.environ},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    download, unpack, cluster, build = (json.loads(line) for line in done.stdout.splitlines())
    assert all("PGDYNO_HOME" in hint for _, hint, _ in (download, unpack, cluster, build))
    name = path.rpartition("/")[2]
    assert download[0] == f"cannot write {scratch}/100/downloads/{name}.partial: no space left on device"
    # half of a file does not keep the disk full
    assert download[2] == []
    assert mirror.count(path) == 2
    assert unpack[0].startswith(f"cannot unpack a server into {scratch}/220/postgres/18.99.0-")
    assert unpack[0].endswith(": no space left on device")
    assert cluster[0].startswith("target t: cannot create a cluster with initdb 18.")
    assert "No space left on device" in cluster[0]
    assert cluster[2] == []
    assert build[2] == ["key.log"]


def users_of_servers(data_directory: Path) -> list[int]:
    found = []
    for process in servers_in(data_directory):
        with suppress(FileNotFoundError):
            found.append((PROC / str(process.pid)).stat().st_uid)
    return found


def test_an_ordinary_user_runs_servers_itself(own_folder: Path, installed: Installation) -> None:
    spec = LocalTarget(kind="local", bin=str(installed.bin))

    def run() -> tuple[str, list[int], int, bool]:
        with opened(Home.locate(own_folder / "home"), spec) as server:
            version = server.facts().version
            uids = users_of_servers(server.data_directory)
        return version, uids, os.geteuid(), server.data_directory.exists()

    version, uids, own, left = as_unprivileged(run)
    assert version == installed.version
    assert len(uids) > 3
    assert own != 0
    assert set(uids) == {own}
    assert not left
    assert list((own_folder / "home" / "instances").iterdir()) == []


def test_servers_are_the_accounts_and_never_roots(server: Server, home: Home) -> None:
    status = server.data_directory.stat()
    assert set(users_of_servers(server.data_directory)) == {home.account.uid} == {status.st_uid}
    assert status.st_uid != 0
    assert status.st_mode & 0o777 == 0o700


@pytest.fixture
def other_account(monkeypatch: pytest.MonkeyPatch) -> None:
    other = Account("other", os.geteuid() + 1, os.getegid() + 1, Relation.OTHER)
    monkeypatch.setattr(home_module, "find_account", lambda _environ: other)


@pytest.mark.usefixtures("other_account")
def test_a_home_behind_a_closed_folder_lives_elsewhere(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(home_module, "FALLBACK", scratch / "fallback")
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


@pytest.mark.usefixtures("other_account")
def test_our_own_home_is_opened_to_the_servers_user(scratch: Path) -> None:
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
    (scratch / "file").touch()
    assert failure(lambda: Home.locate(scratch / "file"))[0] == f"cannot use {scratch}/file: not a folder"
