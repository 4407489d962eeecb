"""A program on another host as if it ran here: its streams, signals, end, and the files sent with it."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from pgdyno.remote import RemoteError
from pgdyno.remote.connect import connect_host
from pgdyno.remote.install import put
from pgdyno.remote.program_files import pack
from pgdyno.remote.remote_host import RemoteHost, relay_command
from tests.present import present
from tests.ssh.sshd import Sshd, running_sshd
from tests.waiting import PATIENCE_S, wait_until

PROGRAM = f"""#!{sys.executable}
import os, signal, sys
if sys.argv[1] in ("--version", "--help"):
    print("--lease=SECONDS")
    sys.exit()

def told(*_):
    print("told", flush=True)
    os._exit(7)

signal.signal(signal.SIGINT, told)
for name, value in os.environ.items():
    if name.startswith("PG"):
        print(name, value, sep="=")
print(*sys.argv[1:])
print(os.getcwd())
print("on standard error", file=sys.stderr, flush=True)
print("pid", os.getpid(), flush=True)
for line in sys.stdin:
    if line.strip():
        print("heard", line.strip(), flush=True)
print("closed", flush=True)
os._exit(3)
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    file = tmp_path / "program"
    file.write_text(PROGRAM)
    file.chmod(0o755)
    return file


@contextmanager
def relayed(
    sshd: Sshd, tmp_path: Path, program: Path, *options: str, hosts: dict[str, str] | None = None, **more: str
) -> Iterator[subprocess.Popen[str]]:
    file = tmp_path / "there.json"
    RemoteHost(sshd.spec(), hosts or {}).write(file)
    assert file.stat().st_mode & 0o077 == 0
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    command = [*relay_command(file), str(program), *options]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=tmp_path, env=clean | more, stdin=pipe, stdout=pipe, stderr=pipe, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def until(process: subprocess.Popen[str], begin: str) -> list[str]:
    lines: list[str] = []
    for line in present(process.stdout):
        lines.append(line.rstrip("\n"))
        if line.startswith(begin):
            return lines
    raise AssertionError(lines)


def test_streams_files_variables_and_the_exit_code(sshd: Sshd, tmp_path: Path, program: Path) -> None:
    (tmp_path / "pass").write_text("db.example:5432:*:me:secret\nother:5432:*:me:x\n")
    (tmp_path / "own.sql").write_text("SELECT 1;\n")
    variables = {"PGHOST": "db.example", "PGPASSFILE": str(tmp_path / "pass"), "PGDYNO_HOME": "/nowhere"}
    hosts = {"db.example": "10.0.0.7"}
    with relayed(sshd, tmp_path, program, "-f", "own.sql@2", "-c", "1", hosts=hosts, **variables) as process:
        lines = until(process, "pid")
        assert process.stdin is not None
        process.stdin.write("clock 1\n")
        process.stdin.flush()
        assert until(process, "heard") == ["heard clock 1"]
        folder = Path(lines[-2])
        assert (folder / "own.sql").read_text() == "SELECT 1;\n"
        (kept,) = [each for each in folder.rglob("pass") if each.is_file()]
        # the passwords of other servers stay here
        assert kept.read_text() == "10.0.0.7:5432:*:me:secret\n"
        assert kept.stat().st_mode & 0o077 == 0
        process.stdin.close()
        assert until(process, "closed")
        assert process.wait(PATIENCE_S) == 3
        assert "on standard error" in present(process.stderr).read()
    assert "PGHOST=10.0.0.7" in lines
    assert not [line for line in lines if "secret" in line or "PGDYNO" in line]
    assert "--lease=60 -f own.sql@2 -c 1" in lines
    assert not folder.exists()


def test_variables_of_the_other_host_do_not_count_and_a_signal_is_handed_on(tmp_path: Path, program: Path) -> None:
    lines = ["SetEnv PGOPTIONS=-cwork_mem=1GB", "SetEnv PGHOST=elsewhere"]
    with (
        running_sshd(tmp_path / "sshd", lines=lines) as sshd,
        relayed(sshd, tmp_path, program, PGHOST="db.example") as process,
    ):
        said = until(process, "pid")
        process.send_signal(signal.SIGINT)
        assert "told" in until(process, "told")
        assert process.wait(PATIENCE_S) == 7
    assert [line for line in said if line.startswith("PG")] == ["PGHOST=db.example"]


def test_a_killed_relay_leaves_nothing_running_on_the_host(sshd: Sshd, tmp_path: Path, program: Path) -> None:
    with relayed(sshd, tmp_path, program) as process:
        *_, folder, pid = (line.rpartition(" ")[2] for line in until(process, "pid"))
        process.kill()
        process.wait()
        # loopback: the other host's processes are ours to see
        wait_until(lambda: not Path(f"/proc/{pid}").exists() and not Path(folder).exists())


def left_files(sshd: Sshd) -> list[Path]:
    return list(sshd.cache.glob("files-*"))


def test_files_of_a_start_that_fails_are_removed(sshd: Sshd, tmp_path: Path, program: Path) -> None:
    """The first file, which is on the host when the second one cannot be written, is a password file."""
    (tmp_path / "a").write_text("*:*:*:*:secret\n")
    # the name of a folder that the host cannot make
    (tmp_path / ("b" * 250)).write_text("SELECT 1;\n")
    with relayed(sshd, tmp_path, program, "-f", "b" * 250, PGPASSFILE="a") as process:
        assert process.wait(PATIENCE_S) == 2
        assert present(process.stderr).read().startswith("program: error: 127.0.0.1: cannot copy")
    assert left_files(sshd) == []


def test_files_of_an_interrupted_copy_are_removed(sshd: Sshd) -> None:
    before = left_files(sshd)

    async def interrupted() -> None:
        async with connect_host(sshd.spec()) as connection:
            content = {"a": b"*:*:*:*:secret", "b": b"x" * 200_000_000}
            copying = asyncio.create_task(put(connection, content, str(sshd.cache), "host"))
            while not any((each / "a").exists() for each in left_files(sshd) if each not in before):
                await asyncio.sleep(0.01)
            copying.cancel()
            with suppress(asyncio.CancelledError):
                await copying

    asyncio.run(interrupted())
    assert left_files(sshd) == before


def test_a_host_learns_no_password_but_that_of_its_server(tmp_path: Path) -> None:
    file = tmp_path / "pass"
    lines = ["# mine", "a:5432:*:me:one", "*:*:*:you:two", r"fe80\:\:1:5432:*:me:three", "localhost:*:*:me:four", "x:y"]
    file.write_text("\n".join(lines))

    def kept(**variables: str) -> list[str]:
        packed = pack([], {"PGPASSFILE": str(file), **variables}, {"a": "10.0.0.7", "fe80::1": "fe80::2"})
        return packed.files[packed.environment["PGPASSFILE"]].decode().splitlines()

    assert kept(PGHOST="a", PGUSER="me") == ["10.0.0.7:5432:*:me:one"]
    assert kept(PGHOST="a", PGUSER="you", PGPORT="5433") == ["*:*:*:you:two"]
    assert kept(PGHOST="fe80::1", PGUSER="me") == [r"fe80\:\:2:5432:*:me:three"]
    assert kept(PGHOST="/run/postgresql", PGUSER="me") == ["localhost:*:*:me:four"]
    assert kept(PGHOST="b") == ["*:*:*:you:two"]


def test_a_password_becomes_a_file_and_files_that_cannot_be_sent_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RemoteError, match="Lua script"):
        pack(["--lua=x.lua"], {}, {})
    with pytest.raises(RemoteError, match="cannot read"):
        pack(["-f", str(tmp_path / "none.sql")], {}, {})
    (tmp_path / "up.sql").touch()
    assert pack(["-f", f"{tmp_path}/../{tmp_path.name}/up.sql"], {}, {}).options[1].startswith("tmp")
    packed = pack([], {"PGPASSWORD": r"se:cr\et", "PGUSER": "me"}, {})
    assert packed.environment.keys() == {"PGPASSFILE", "PGUSER"}
    assert packed.files == {packed.environment["PGPASSFILE"]: rb"*:*:*:*:se\:cr\\et" + b"\n"}
