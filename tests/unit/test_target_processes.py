"""Processes of servers, users under which they run, files that only they may read, and the lock of a host."""

import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pgdyno.errors import ExitCode, TargetError
from pgdyno.signals_and_exit import signals_deferred
from pgdyno.targets import SilentProgress, Use, WhenBusy, host_in_use
from pgdyno.targets import lock as lock_module
from pgdyno.targets.build.cached_build import compiler_version
from pgdyno.targets.cluster.folders import remove_places, run_tool
from pgdyno.targets.cluster.postmaster import make_socket_folder
from pgdyno.targets.cluster.processes import ProcessId, descendants, identify, servers_in, start_ticks
from pgdyno.targets.cluster.subprocesses import clean_environment, run_program
from pgdyno.targets.home import write_private
from pgdyno.targets.http_requests import public_url
from pgdyno.targets.local.kind import _ask_pg_config
from pgdyno.targets.lock import FILE, lock_folder
from pgdyno.targets.server_user import Account, Relation, find_account
from tests.present import present

OWN = Account("own", os.geteuid(), os.getegid(), Relation.SAME)


def test_a_process_and_its_end() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process = present(identify(child.pid))
    assert process.is_alive()
    assert ProcessId(child.pid, process.start_ticks + 1).is_alive() is False
    own = present(identify(os.getpid()))
    assert process in descendants(own)
    process.send(signal.SIGKILL)
    while process.is_alive():
        pass
    # a zombie, until we wait for it
    assert start_ticks(child.pid) is None
    child.communicate()
    process.send(signal.SIGKILL)
    assert identify(child.pid) != process


def test_only_servers_count_as_servers(tmp_path: Path) -> None:
    bystander = subprocess.Popen([sys.executable, "-c", "input()", str(tmp_path)], stdin=subprocess.PIPE, cwd=tmp_path)
    assert servers_in(tmp_path) == []
    # a shell is called by the name that it was started with
    program = tmp_path / "postgres"
    program.symlink_to("/bin/sh")
    server = subprocess.Popen([program, "-c", "read line; exit 0"], stdin=subprocess.PIPE, cwd=tmp_path)
    found = [process.pid for process in servers_in(tmp_path)]
    for child in (bystander, server):
        child.communicate(b"\n")
    assert found == [server.pid]
    assert servers_in(tmp_path) == []


def test_signals_wait_for_the_end_of_the_block() -> None:
    reached: list[str] = []

    def interrupted() -> None:
        with signals_deferred():
            os.kill(os.getpid(), signal.SIGINT)
            reached.append("the end of the block")
        reached.append("what is behind it")

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert reached == ["the end of the block"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(ZeroDivisionError), signals_deferred():
        raise ZeroDivisionError
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_programs_see_little_of_our_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGOPTIONS", "-c fsync=off")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    environment = clean_environment("/opt/lib")
    assert set(environment) <= {"PATH", "TZ", "LC_ALL", "LD_LIBRARY_PATH", "LD_PRELOAD"}
    assert (environment["TZ"], environment["LD_LIBRARY_PATH"]) == ("Asia/Tokyo", "/opt/lib")
    status, output = run_program(["/bin/sh", "-c", "pwd; umask; echo $LC_ALL; exit 3"], OWN, environment)
    assert (status, output) == (3, "/\n0077\nC\n")
    with pytest.raises(TargetError, match="cannot run /no/such/program as user own: no such file or directory"):
        run_program(["/no/such/program"], OWN, {})


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Writes text that is not UTF-8 on both outputs, and fails if it is told to."""
    path = tmp_path / "pg_config"
    path.write_bytes(b"#!/bin/sh\nprintf 'Universit\\344t'\nprintf 'Universit\\344t' >&2\nexit ${PROGRAM_STATUS:-0}\n")
    path.chmod(0o755)
    return path


def test_outputs_of_programs_need_not_be_utf_8_and_a_locale_without_it_is_enough(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _ask_pg_config({"PATH": str(program.parent)})[1] == Path("Universit\ufffdt")
    assert compiler_version({"CC": str(program)}, {"PATH": "/usr/bin:/bin"}) == "Universit\ufffdt"
    monkeypatch.setenv("PROGRAM_STATUS", "1")
    with pytest.raises(TargetError, match=re.escape("failed: Universit\ufffdt")):
        run_tool(str(program))
    root = Path(__file__).parents[2] / "python" / "pgdyno"
    words = ("text=True", "universal_newlines")
    assert [path for path in root.rglob("*.py") if any(word in path.read_text() for word in words)] == []
    # without coercion and without Python's UTF-8 mode, output is still read as UTF-8
    program.write_text("#!/bin/sh\nprintf 'Universität' >&2\nexit 1\n", encoding="utf-8")
    code = (
        "import sys\nfrom pgdyno.errors import TargetError\nfrom pgdyno.targets.cluster.folders import run_tool\n"
        "try:\n    run_tool(sys.argv[1])\nexcept TargetError as error:\n    print(ascii(error.message))\n"
    )
    environment = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PATH": "/usr/bin:/bin"}
    said = subprocess.run([sys.executable, "-c", code, str(program)], env=environment, capture_output=True, check=True)
    assert said.stdout.decode("ascii").strip().endswith(r"failed: Universit\xe4t'")


def test_only_folders_for_sockets_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Path] = []
    folder = make_socket_folder(OWN, told.append)
    assert told == [folder]
    assert folder.stat().st_mode & 0o777 == 0o700
    # another user's is not ours to remove
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: 4_000_000)
        remove_places([str(folder)], None, Account("other", 4_000_001, 4_000_001, Relation.OTHER))
    assert folder.is_dir()
    for _ in range(2):
        remove_places([str(folder)], None, OWN)
        assert not folder.exists()
    link = tmp_path / "pgdyno-0123abcd"
    link.symlink_to(tmp_path)
    remove_places([str(link), str(tmp_path)], None, OWN)
    assert link.is_symlink()


def test_addresses_are_shown_without_passwords() -> None:
    for url, shown in (
        ("https://me:secret@host:8443/maven2", "https://host:8443/maven2"),
        ("https://token@host/maven2", "https://host/maven2"),
        ("http://host/a@b", "http://host/a@b"),
    ):
        assert public_url(url) == shown


OTHER = Account("other", 4_000_000, 4_000_000, Relation.OTHER)


def test_an_ordinary_user_is_itself_and_root_gives_way_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    daemon = {"PGDYNO_SERVER_USER": "daemon"}
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_000)
    account = find_account(daemon)
    assert (account.name, account.uid, account.relation) == ("4000000", 4_000_000, Relation.SAME)
    assert account.popen_user() == {}
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    account = find_account({})
    assert (account.name, account.uid == 0) == ("nobody", False)
    assert account.popen_user() == {"user": account.uid, "group": account.gid, "extra_groups": []}
    assert find_account(daemon).name == "daemon"
    for name, reason in (("root", "PostgreSQL refuses to run as root"), ("no-such-user", "there is no such user")):
        with pytest.raises(TargetError) as caught:
            find_account({"PGDYNO_SERVER_USER": name})
        assert caught.value.message == f"cannot run servers as user {name}: {reason}"
        assert "PGDYNO_SERVER_USER" in str(caught.value.hint)


def test_rights_of_groups_owners_and_others_on_the_way(tmp_path: Path) -> None:
    tmp_path.chmod(0o710)
    assert Account("peer", 4_000_000, tmp_path.stat().st_gid, Relation.OTHER).can_traverse(tmp_path)
    assert not OTHER.can_traverse(tmp_path)
    tmp_path.chmod(0o077)
    assert not Account("own", tmp_path.stat().st_uid, 1, Relation.OTHER).can_traverse(tmp_path)
    tmp_path.chmod(0o700)
    path = tmp_path / "program"
    path.touch(0o744)
    assert not OTHER.can_execute(path)
    path.chmod(0o745)
    assert OTHER.can_execute(path)
    assert not OTHER.can_execute(tmp_path)
    # closed folders on the way
    own = Account("own", os.geteuid(), os.getegid(), Relation.SAME)
    # pytest's folders are closed to others
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        outer = Path(name)
        inner = outer / "inner"
        inner.mkdir(0o700)
        assert OTHER.blocked_at(inner / "file") == outer
        outer.chmod(0o755)
        assert OTHER.blocked_at(inner / "file") == inner
        assert OTHER.blocked_at(inner) is None
        assert OTHER.can_traverse(outer)
        assert not OTHER.can_traverse(inner)
        assert own.blocked_at(inner / "file") is None


def test_a_private_file_replaces_what_is_there(tmp_path: Path) -> None:
    path, elsewhere = tmp_path / "password", tmp_path / "elsewhere"
    elsewhere.write_text("kept")
    path.symlink_to(elsewhere)
    before = os.umask(0)
    try:
        write_private(path, "secret\n", find_account())
    finally:
        os.umask(before)
    assert (path.read_text(), path.stat().st_mode & 0o777, path.is_symlink()) == ("secret\n", 0o600, False)
    assert path.stat().st_uid == find_account().uid
    assert elsewhere.read_text() == "kept"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["elsewhere", "password"]
    with pytest.raises(TargetError, match=r"cannot write .*gone/password: no such file"):
        write_private(tmp_path / "gone" / "password", "secret", find_account())


def test_a_reader_may_delete_a_private_file_as_soon_as_it_exists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A standby deletes its trigger file when it sees it: the file has to be complete by then."""
    path = tmp_path / "promote"
    chown = os.chown

    def consumed(*args: object, **_: object) -> None:
        path.unlink(missing_ok=True)
        chown(args[0], -1, -1)  # type: ignore[arg-type]

    for name in ("chown", "fchown", "chmod", "fchmod"):
        monkeypatch.setattr(os, name, consumed)
    write_private(path, "", Account("nobody", os.getuid(), os.getgid(), Relation.OTHER))
    assert path.exists()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_module, "POLL_S", 0.01)


class Told(SilentProgress):
    def __init__(self) -> None:
        self.said: list[str] = []

    def step(self, text: str) -> None:
        self.said.append(text)


@contextmanager
def another(folder: Path, plan: str = "first") -> Iterator[int]:
    """Starts another process that measures, and yields its PID."""
    ready, release = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        with host_in_use(Use(plan), SilentProgress(), folder):
            os.write(ready[1], b"x")
            os.close(release[1])
            os.read(release[0], 1)
        os._exit(0)
    os.read(ready[0], 1)
    try:
        yield pid
    finally:
        os.close(release[1])
        os.waitpid(pid, 0)


def test_a_process_alone_reports_nothing_and_a_second_is_refused_or_measures_alongside(tmp_path: Path) -> None:
    for _ in range(2):
        with host_in_use(Use("mine"), SilentProgress(), tmp_path) as note:
            assert note is None
    assert (tmp_path / FILE).read_text() == ""
    # every user of the host must be able to hold it
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o666
    with another(tmp_path) as pid:
        first = f"another pgdyno is measuring on this host: process {pid}, plan first"
        refused = pytest.raises(TargetError, match=f"{first}, since 20")
        with refused as caught, host_in_use(Use("second"), SilentProgress(), tmp_path):
            pass
        assert caught.value.exit_code is ExitCode.TARGET
        assert caught.value.hint == "wait for it with --wait, or measure anyway with --alongside"
        with host_in_use(Use("second", WhenBusy.ALONGSIDE), SilentProgress(), tmp_path) as note:
            assert present(note).id == "alongside-on-host"
            assert str(note).startswith(f"measured alongside: {first}")
            # a third process learns which one holds the lock
            assert f'"pid": {pid}' in (tmp_path / FILE).read_text()


def test_the_second_waits(tmp_path: Path) -> None:
    told = Told()
    entered = threading.Event()

    def second() -> None:
        with host_in_use(Use("second", WhenBusy.WAIT), told, tmp_path):
            entered.set()

    with another(tmp_path) as pid:
        thread = threading.Thread(target=second)
        thread.start()
        while not told.said:
            time.sleep(0.005)
        assert not entered.is_set()
    thread.join(timeout=120)
    assert entered.is_set()
    # once, not at every look
    assert told.said[0].startswith(f"waiting: another pgdyno is measuring on this host: process {pid}, plan first")
    assert len(told.said) <= 2


def test_the_lock_of_a_killed_process_is_free_and_its_content_is_not_trusted(tmp_path: Path) -> None:
    with another(tmp_path) as pid:
        os.kill(pid, 9)
        waiting = Use("second", WhenBusy.WAIT)
        with host_in_use(waiting, SilentProgress(), tmp_path) as note:
            assert note is None
    # nor is the content of the file trusted
    with another(tmp_path, plan="evil\x1b[2J"):
        with pytest.raises(TargetError, match=r"plan evil\?\[2J"), host_in_use(Use(), SilentProgress(), tmp_path):
            pass
        (tmp_path / FILE).write_text("{nonsense")
        with pytest.raises(TargetError, match="does not name it"), host_in_use(Use(), SilentProgress(), tmp_path):
            pass


def test_a_lock_that_cannot_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("kept")
    (tmp_path / FILE).symlink_to(elsewhere)
    missing = tmp_path / "missing"
    for folder in (tmp_path, missing):
        cannot = pytest.raises(TargetError, match="cannot open the lock")
        with cannot as caught, host_in_use(Use(), SilentProgress(), folder):
            pass
    assert caught.value.hint == f"create the folder {missing}, or set PGDYNO_LOCKS to another one"
    assert elsewhere.read_text() == "kept"
    monkeypatch.setenv("PGDYNO_LOCKS", str(tmp_path))
    assert lock_folder() == tmp_path
    monkeypatch.delenv("PGDYNO_LOCKS")
    assert lock_folder().is_dir()
