"""`pgdyno capture` as a user runs it: over SSH, from files, with a password, and ended in every way."""

import os
import pty
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgdyno.errors import ExitCode
from pgdyno.targets import Home
from pgdyno.targets.cluster.installation import Installation
from tests.forked import PGDYNO
from tests.json_schema import validated
from tests.postgres.own_servers import LOGS_STATEMENTS, OwnServer, running_server
from tests.postgres.runs import environment, pgdyno
from tests.run_program import run_program
from tests.ssh.sshd import running_sshd
from tests.waiting import PATIENCE_S, wait_until

STATEMENTS = 10
CONFIGURATION = f"{LOGS_STATEMENTS}shared_preload_libraries = 'pg_stat_statements'\n"
FILES = {"capture.json", "capture.parquet", "plan.toml", "README.md"}
PASSWORD = "it's a secret of 1"


@pytest.fixture(scope="module")
def server(installed: Installation) -> Iterator[OwnServer]:
    with running_server(installed, CONFIGURATION, "shop") as server:
        with application(server) as connection:
            connection.execute("CREATE EXTENSION pg_stat_statements")
        yield server


def dsn(server: OwnServer) -> str:
    return f"host={server.folder} port={server.port} user=postgres dbname=shop"


def application(server: OwnServer) -> psycopg.Connection[tuple[Any, ...]]:
    return psycopg.connect(dsn(server), autocommit=True, application_name="shop")


def work(server: OwnServer) -> None:
    server.value("SELECT 'elsewhere'")
    with application(server) as connection:
        for number in range(STATEMENTS):
            connection.execute(f"SELECT {number}".encode())


def logs(server: OwnServer) -> str:
    return f"{server.data}/log/*.csv"


@dataclass
class Capturing:
    """A `pgdyno capture` that records."""

    process: subprocess.Popen[bytes]
    folder: Path
    """The folder of the capture."""
    output: Path
    errors: Path

    def wait_copied(self, text: str) -> None:
        wait_until(lambda: any(text.encode() in path.read_bytes() for path in self.folder.glob(".log/*")))

    def ended(self, number: int | None = None) -> int:
        if number is not None:
            self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)


@contextmanager
def capturing(
    home: Home, folder: Path, *words: str, env: Mapping[str, str] = {}, before: Sequence[str] = ()
) -> Iterator[Capturing]:
    """Runs `pgdyno capture` into the folder `shop`; `before` is a command prefix. It records when the block begins."""
    output, errors = folder / "stdout", folder / "stderr"
    with output.open("wb") as stdout, errors.open("wb") as stderr:
        command = [*before, str(PGDYNO), "capture", *words, "--into", "shop"]
        if not {"--log", "--for"} & set(words):
            command += ["--for", "1h"]
        process = subprocess.Popen(command, cwd=folder, env={**environment(home), **env}, stdout=stdout, stderr=stderr)
    try:
        wait_until(lambda: "recording" in errors.read_text() or process.poll() is not None)
        yield Capturing(process, folder / "shop", output, errors)
    finally:
        process.kill()
        process.wait()


# ---- how it ends ----


@pytest.mark.long_cases("[2")
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, ExitCode.INTERRUPTED), (signal.SIGTERM, ExitCode.TERMINATED)]
)
def test_interrupted_captures_stay(server: OwnServer, home: Home, tmp_path: Path, number: int, code: ExitCode) -> None:
    with capturing(home, tmp_path, dsn(server)) as capture:
        work(server)
        capture.wait_copied(f"SELECT {STATEMENTS - 1}")
        ended = capture.ended(number)
    out, err = capture.output.read_text(), capture.errors.read_text()
    assert ended == code, err
    assert "interrupted: keeping what was recorded" in err
    assert "the server logs every statement (log_min_duration_statement = 0) as csvlog" in err
    assert f"shop/ has {STATEMENTS} statements of 1 session" in out, out + err
    assert "the capture was interrupted" in out
    assert {path.name for path in capture.folder.iterdir()} == FILES
    assert "The capture was interrupted." in (capture.folder / "README.md").read_text()


def test_an_interrupted_capture_of_statistics_keeps_what_it_has(server: OwnServer, home: Home, tmp_path: Path) -> None:
    with capturing(home, tmp_path, dsn(server), "--statements", "--json") as capture:
        work(server)
        ended = capture.ended(signal.SIGTERM)
    assert ended == ExitCode.TERMINATED, capture.errors.read_text()
    printed = validated("capture", capture.output.read_text())
    assert (printed["ended"], printed["source"], printed["values"]) == ("interrupted", "pg_stat_statements", "unknown")
    assert printed["calls"] == STATEMENTS
    assert {path.name for path in capture.folder.iterdir()} == {"capture.json", "README.md"}


@pytest.mark.long_cases("statements")
@pytest.mark.parametrize("source", [(), ("--statements", "--for", "1m")], ids=["log", "statements"])
def test_a_capture_of_a_lost_server(
    installed: Installation, home: Home, tmp_path: Path, source: tuple[str, ...]
) -> None:
    with running_server(installed, CONFIGURATION, "shop") as server:
        with application(server) as connection:
            connection.execute("CREATE EXTENSION pg_stat_statements")
        with capturing(home, tmp_path, dsn(server), "--json", *source) as capture:
            work(server)
            if source:
                # the statistics are read every 10 s
                wait_until(lambda: f"{STATEMENTS} statements" in capture.errors.read_text())
            else:
                capture.wait_copied(f"SELECT {STATEMENTS - 1}")
            server.stop("immediate")
            # before the next line of progress, which comes once a minute in an hour
            wait_until(lambda: "no connection to the server" in capture.errors.read_text(), patience_s=30)
            ended = capture.ended(signal.SIGINT)
    assert ended == ExitCode.INTERRUPTED, capture.errors.read_text()
    printed = validated("capture", capture.output.read_text())
    assert (printed["ended"], printed["calls"]) == ("server-lost", STATEMENTS)
    assert "The capture lost the server before its end." in (capture.folder / "README.md").read_text()


# ---- a full disk ----


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[tuple[Path, list[str]]]:
    """A folder that is soon full, with what runs before a command: without the right to mount, a limit for files."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    is_mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    yield folder, [] if is_mounted else ["bash", "-c", 'ulimit -f 256; exec "$@"', "limited"]
    if is_mounted:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_ends_a_capture_and_leaves_no_part_of_it(
    server: OwnServer, home: Home, small_disk: tuple[Path, list[str]], tmp_path: Path
) -> None:
    folder, before = small_disk
    words = [*before, str(PGDYNO), "capture"]
    errors = tmp_path / "stderr"
    with errors.open("w") as stderr:
        recording = subprocess.Popen(
            [*words, dsn(server), "--for", "1h", "--into", str(folder / "shop")],
            cwd=tmp_path, env=environment(home), stdout=subprocess.DEVNULL, stderr=stderr,
        )  # fmt: skip
    try:
        wait_until(lambda: "recording" in errors.read_text() or recording.poll() is not None)
        with application(server) as connection:
            connection.execute("SELECT length(%s)", ["x" * 1_000_000])
        assert recording.wait(PATIENCE_S) == ExitCode.STORE, errors.read_text()
    finally:
        recording.kill()
        recording.wait()
    of_files = run_program(
        [*words, "--log", logs(server), "--database", "shop", "--into", str(folder / "shop")],
        env=environment(home),
        cwd=tmp_path,
    )
    assert of_files.returncode == ExitCode.STORE, of_files.stderr
    for said in (errors.read_text(), of_files.stderr):
        assert f"cannot write {folder}/shop" in said
        assert "Traceback" not in said
        assert "--runs" not in said
    assert not (folder / "shop").exists()


# ---- where the log is ----


def test_a_log_is_read_over_ssh(server: OwnServer, home: Home, tmp_path: Path) -> None:
    with running_sshd(tmp_path / "sshd") as sshd:
        (tmp_path / ".ssh").mkdir(mode=0o700)
        for name in ("config", "known_hosts"):
            shutil.copy(sshd.folder / name, tmp_path / ".ssh")
        place, here = f"{sshd.address}:{sshd.port}", {"HOME": str(tmp_path)}
        with capturing(home, tmp_path, dsn(server), "--ssh", place, "--json", env=here) as capture:
            work(server)
            capture.wait_copied(f"SELECT {STATEMENTS - 1}")
            assert capture.ended(signal.SIGINT) == ExitCode.INTERRUPTED, capture.errors.read_text()
        recorded = validated("capture", capture.output.read_text())
        words = ["--log", logs(server), "--database", "shop", "--ssh", place, "--json", "--into", "files"]
        done = run_program([PGDYNO, "capture", *words], env=environment(home) | here, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        copied = validated("capture", done.stdout)
        assert f"of log from {place}" in done.stderr
    assert (recorded["calls"], recorded["ended"]) == (STATEMENTS, "interrupted")
    assert (copied["ended"], copied["database"]) == ("time", "shop")
    assert copied["calls"] >= STATEMENTS
    for folder in ("shop", "files"):
        assert {path.name for path in (tmp_path / folder).iterdir()} == FILES


def test_a_server_is_recorded_from_files_that_the_user_names(server: OwnServer, home: Home, tmp_path: Path) -> None:
    with capturing(home, tmp_path, dsn(server), "--log", logs(server), "--for", "1h", "--json") as capture:
        work(server)
        capture.wait_copied(f"SELECT {STATEMENTS - 1}")
        assert capture.ended(signal.SIGINT) == ExitCode.INTERRUPTED, capture.errors.read_text()
    printed = validated("capture", capture.output.read_text())
    assert printed["calls"] == STATEMENTS
    # the copied log, whose lines are others than those of the server's file, is gone
    (elsewhere,) = (each for each in printed["left_out"] if each["reason"] == "other-database")
    assert (elsewhere["count"], elsewhere["first"]) == (1, None)


def test_files_are_captured_as_they_are_now(server: OwnServer, home: Home, tmp_path: Path) -> None:
    work(server)
    wait_until(lambda: any(b"SELECT 9" in path.read_bytes() for path in (server.data / "log").glob("*.csv")))
    done = pgdyno(home, tmp_path, "capture", "--log", logs(server), "--database", "shop", "--json", "--into", "shop")
    assert done.returncode == 0, done.stderr
    printed = validated("capture", done.stdout)
    assert printed["folder"] == "shop"
    assert printed["calls"] >= STATEMENTS
    done = pgdyno(home, tmp_path, "capture", "--log", "nosuch.csv", "--json", "--into", "none")
    assert (done.returncode, done.stdout) == (ExitCode.USAGE, "")
    assert "no file matches nosuch.csv" in done.stderr


def test_a_capture_of_a_server_without_work_says_so(server: OwnServer, home: Home, tmp_path: Path) -> None:
    done = pgdyno(home, tmp_path, "capture", dsn(server), "--for", "1s", "--into", "idle")
    assert done.returncode == ExitCode.USAGE
    assert "capture while the application runs" in done.stderr
    assert not (tmp_path / "idle").exists()


# ---- passwords ----


@dataclass
class Terminal:
    """What a program writes to its terminal."""

    descriptor: int
    written: bytearray = field(default_factory=bytearray)

    def __post_init__(self) -> None:
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                self.written += os.read(self.descriptor, 4096)
            except OSError:  # the last program has closed its side
                return

    def wait_for(self, text: str) -> None:
        wait_until(lambda: text.encode() in self.written)

    def close(self) -> None:
        self._reader.join(PATIENCE_S)
        os.close(self.descriptor)


@contextmanager
def on_terminal(command: Sequence[str], folder: Path, env: Mapping[str, str]) -> Iterator[tuple[Terminal, Any]]:
    """Runs `command` with a terminal of its own."""
    ours, theirs = pty.openpty()
    words = ["setsid", "--ctty", *command]
    process = subprocess.Popen(words, cwd=folder, env=env, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    terminal = Terminal(ours)
    try:
        yield terminal, process
    finally:
        process.kill()
        process.wait()
        terminal.close()


def process_list() -> bytes:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes())
        except OSError:  # it has ended
            continue
    return b"\n".join(found)


def test_a_password_that_is_asked_for_is_shown_nowhere(server: OwnServer, home: Home, tmp_path: Path) -> None:
    hba = server.data / "pg_hba.conf"
    hba.write_text(f"host all guarded 127.0.0.1/32 scram-sha-256\n{hba.read_text()}")
    with server.connect() as connection:
        quoted = PASSWORD.replace("'", "''")
        connection.execute(f"CREATE ROLE guarded LOGIN SUPERUSER PASSWORD '{quoted}'".encode())
        connection.execute("SELECT pg_reload_conf()")
    wait_until(lambda: not server.admits("guarded", ""))
    address = f"host=127.0.0.1 port={server.port} user=guarded dbname=shop"
    command = [str(PGDYNO), "capture", address, "--for", "1h", "--values", "kept", "--into", "shop"]
    with on_terminal(command, tmp_path, environment(home)) as (terminal, process):
        terminal.wait_for("Password: ")
        os.write(terminal.descriptor, f"{PASSWORD}\n".encode())
        terminal.wait_for("recording")
        work(server)
        assert b"pgdyno" in process_list()
        assert PASSWORD.encode() not in process_list()
        wait_until(lambda: any(b"SELECT 9" in path.read_bytes() for path in tmp_path.glob("shop/.log/*")))
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == ExitCode.INTERRUPTED, terminal.written.decode()
    assert f"has {STATEMENTS} statements" in terminal.written.decode()
    assert PASSWORD.encode() not in terminal.written
    assert {path.name for path in (tmp_path / "shop").iterdir()} == FILES
    for path in (tmp_path / "shop").iterdir():
        assert PASSWORD.encode() not in path.read_bytes()
