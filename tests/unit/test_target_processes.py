"""Processes identified, signals deferred, programs of others run, passwords kept out of addresses."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pgdyno.errors import TargetError
from pgdyno.signals_and_exit import signals_deferred
from pgdyno.targets.build.cached_build import compiler_version
from pgdyno.targets.cluster.folders import remove_places, run_tool
from pgdyno.targets.cluster.postmaster import make_socket_folder
from pgdyno.targets.cluster.processes import ProcessId, descendants, identify, servers_in, start_ticks
from pgdyno.targets.cluster.subprocesses import clean_environment, run_program
from pgdyno.targets.http_requests import public_url
from pgdyno.targets.local.kind import _ask_pg_config
from pgdyno.targets.server_user import Account, Relation
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


def test_outputs_of_programs_need_not_be_utf_8(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _ask_pg_config({"PATH": str(program.parent)})[1] == Path("Universit\ufffdt")
    assert compiler_version({"CC": str(program)}, {"PATH": "/usr/bin:/bin"}) == "Universit\ufffdt"
    monkeypatch.setenv("PROGRAM_STATUS", "1")
    with pytest.raises(TargetError, match=re.escape("failed: Universit\ufffdt")):
        run_tool(str(program))


def test_a_locale_without_utf_8_is_enough(program: Path) -> None:
    """Without coercion and without Python's UTF-8 mode, output is still read as UTF-8."""
    program.write_text("#!/bin/sh\nprintf 'Universität' >&2\nexit 1\n", encoding="utf-8")
    code = (
        "import sys\nfrom pgdyno.errors import TargetError\nfrom pgdyno.targets.cluster.folders import run_tool\n"
        "try:\n    run_tool(sys.argv[1])\nexcept TargetError as error:\n    print(ascii(error.message))\n"
    )
    environment = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PATH": "/usr/bin:/bin"}
    said = subprocess.run([sys.executable, "-c", code, str(program)], env=environment, capture_output=True, check=True)
    assert said.stdout.decode("ascii").strip().endswith(r"failed: Universit\xe4t'")


def test_every_program_is_read_with_an_encoding_of_its_own() -> None:
    root = Path(__file__).parents[2] / "python" / "pgdyno"
    words = ("text=True", "universal_newlines")
    assert [path for path in root.rglob("*.py") if any(word in path.read_text() for word in words)] == []


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


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://me:secret@host:8443/maven2", "https://host:8443/maven2"),
        ("https://token@host/maven2", "https://host/maven2"),
        ("http://host/a@b", "http://host/a@b"),
    ],
)
def test_addresses_are_shown_without_passwords(url: str, shown: str) -> None:
    assert public_url(url) == shown
