"""`pgdyno capture` as a user runs it: over SSH, from files, with a password, and ended in every way.

A load from a capture runs on copies of its server, however these are reached, and not where it was captured.
"""

import json
import os
import pty
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pgdyno.errors import ExitCode
from pgdyno.records.capture import Capture
from pgdyno.targets import Home
from pgdyno.targets.cluster.installation import Installation
from tests.forked import PGDYNO, run_pgdyno
from tests.json_schema import validated
from tests.postgres.own_servers import LOGS_STATEMENTS, OwnServer, running_server
from tests.postgres.runs import environment, pgdyno, the_run
from tests.processes import processes_with
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
        server.execute("CREATE EXTENSION pg_stat_statements", dbname="shop")
        yield server


def work(server: OwnServer) -> None:
    server.value("SELECT 'elsewhere'")
    server.execute(*(f"SELECT {number}" for number in range(STATEMENTS)), dbname="shop")


@dataclass
class Capturing:
    """A `pgdyno capture` that records into `folder`."""

    process: subprocess.Popen[bytes]
    folder: Path
    output: Path
    errors: Path

    def record_work(self, server: OwnServer) -> None:
        work(server)
        last = f"SELECT {STATEMENTS - 1}".encode()
        wait_until(lambda: any(last in path.read_bytes() for path in self.folder.glob(".log/*")))

    def stop(self, number: int = signal.SIGINT) -> None:
        self.process.send_signal(number)
        assert self.process.wait(PATIENCE_S) == 128 + number, self.errors.read_text()

    def printed(self) -> Any:  # noqa: ANN401 - JSON
        return validated("capture", self.output.read_text())


@contextmanager
def capturing(
    home: Home,
    folder: Path,
    *words: str,
    into: str = "shop",
    env: Mapping[str, str] = {},
    before: Sequence[str] = (),
    stdin: int | None = None,
) -> Iterator[Capturing]:
    """Runs `pgdyno capture`; `before` is a command prefix. It records when the block begins."""
    output, errors = folder / "stdout", folder / "stderr"
    with output.open("wb") as stdout, errors.open("wb") as stderr:
        command = [*before, str(PGDYNO), "capture", *words, "--into", into]
        if not {"--log", "--for"} & set(words):
            command += ["--for", "1h"]
        env = {**environment(home), **env}
        process = subprocess.Popen(command, cwd=folder, env=env, stdin=stdin, stdout=stdout, stderr=stderr)
    try:
        wait_until(lambda: "recording" in errors.read_text() or process.poll() is not None)
        yield Capturing(process, folder / into, output, errors)
    finally:
        process.kill()
        process.wait()


# ---- how it ends ----


@pytest.mark.long_cases("2")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_captures_stay(server: OwnServer, home: Home, tmp_path: Path, number: int) -> None:
    with capturing(home, tmp_path, server.dsn("shop")) as capture:
        capture.record_work(server)
        capture.stop(number)
    out, err = capture.output.read_text(), capture.errors.read_text()
    assert "interrupted: keeping what was recorded" in err
    assert "the server logs every statement (log_min_duration_statement = 0) as csvlog" in err
    assert f"shop/ has {STATEMENTS} statements of 1 session" in out, out + err
    assert "the capture was interrupted" in out
    assert {path.name for path in capture.folder.iterdir()} == FILES
    assert "The capture was interrupted." in (capture.folder / "README.md").read_text()


def test_an_interrupted_capture_of_statistics_keeps_what_it_has(server: OwnServer, home: Home, tmp_path: Path) -> None:
    with capturing(home, tmp_path, server.dsn("shop"), "--statements", "--json") as capture:
        work(server)
        capture.stop(signal.SIGTERM)
    printed = capture.printed()
    assert (printed["ended"], printed["source"], printed["values"]) == ("interrupted", "pg_stat_statements", "unknown")
    assert printed["calls"] == STATEMENTS
    assert {path.name for path in capture.folder.iterdir()} == {"capture.json", "README.md"}


@pytest.mark.long_cases("statements")
@pytest.mark.parametrize("source", ["log", "statements"])
def test_a_capture_of_a_lost_server(installed: Installation, home: Home, tmp_path: Path, source: str) -> None:
    words = ("--statements", "--for", "1m") if source == "statements" else ()
    with running_server(installed, CONFIGURATION, "shop") as server:
        server.execute("CREATE EXTENSION pg_stat_statements", dbname="shop")
        with capturing(home, tmp_path, server.dsn("shop"), "--json", *words) as capture:
            if words:
                work(server)
                # the statistics are read every 10 s
                wait_until(lambda: f"{STATEMENTS} statements" in capture.errors.read_text())
            else:
                capture.record_work(server)
            server.stop("immediate")
            # before the next line of progress, which comes once a minute in an hour
            wait_until(lambda: "no connection to the server" in capture.errors.read_text(), patience_s=30)
            capture.stop()
    printed = capture.printed()
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


def test_a_full_disk_leaves_no_capture(
    server: OwnServer, home: Home, small_disk: tuple[Path, list[str]], tmp_path: Path
) -> None:
    folder, before = small_disk
    into = str(folder / "shop")
    with capturing(home, tmp_path, server.dsn("shop"), into=into, before=before) as recording:
        with server.connect("shop") as connection:
            connection.execute("SELECT length(%s)", ["x" * 1_000_000])
        assert recording.process.wait(PATIENCE_S) == ExitCode.STORE, recording.errors.read_text()
    words = [*before, str(PGDYNO), "capture", "--log", logs(server), "--database", "shop", "--into", into]
    of_files = run_program(words, env=environment(home), cwd=tmp_path)
    assert of_files.returncode == ExitCode.STORE, of_files.stderr
    for said in (recording.errors.read_text(), of_files.stderr):
        assert f"cannot write {into}" in said
        assert "Traceback" not in said
        assert "--runs" not in said
    assert not (folder / "shop").exists()


# ---- where the log is ----


def logs(server: OwnServer) -> str:
    return f"{server.data}/log/*.csv"


def test_a_log_is_read_over_ssh(server: OwnServer, home: Home, tmp_path: Path) -> None:
    with running_sshd(tmp_path / "sshd") as sshd:
        (tmp_path / ".ssh").mkdir(mode=0o700)
        for name in ("config", "known_hosts"):
            shutil.copy(sshd.folder / name, tmp_path / ".ssh")
        place, here = f"{sshd.address}:{sshd.port}", {"HOME": str(tmp_path)}
        with capturing(home, tmp_path, server.dsn("shop"), "--ssh", place, "--json", env=here) as capture:
            capture.record_work(server)
            capture.stop()
        recorded = capture.printed()
        words = ["--log", logs(server), "--database", "shop", "--ssh", place, "--json", "--into", "files"]
        done = run_pgdyno(["capture", *words], env=environment(home) | here, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        copied = validated("capture", done.stdout)
        assert f"of log from {place}" in done.stderr
    assert (recorded["calls"], recorded["ended"]) == (STATEMENTS, "interrupted")
    assert (copied["ended"], copied["database"]) == ("time", "shop")
    assert copied["calls"] >= STATEMENTS
    for folder in ("shop", "files"):
        assert {path.name for path in (tmp_path / folder).iterdir()} == FILES


def test_a_server_is_recorded_from_files_that_the_user_names(server: OwnServer, home: Home, tmp_path: Path) -> None:
    with capturing(home, tmp_path, server.dsn("shop"), "--log", logs(server), "--for", "1h", "--json") as capture:
        capture.record_work(server)
        capture.stop()
    printed = capture.printed()
    assert printed["calls"] == STATEMENTS
    # the copied log, whose lines are others than those of the server's file, is gone
    (elsewhere,) = (each for each in printed["left_out"] if each["reason"] == "other-database")
    assert (elsewhere["count"], elsewhere["first"]) == (1, None)


def test_captures_of_nothing_are_errors(server: OwnServer, home: Home, tmp_path: Path) -> None:
    for where, said in (
        ((server.dsn("shop"), "--for", "1s"), "capture while the application runs"),
        (("--log", "nosuch.csv"), "no file matches nosuch.csv"),
    ):
        done = pgdyno(home, tmp_path, "capture", *where, "--json", "--into", "none")
        assert (done.returncode, done.stdout) == (ExitCode.USAGE, "")
        assert said in done.stderr
        assert not (tmp_path / "none").exists()


# ---- passwords ----


def test_a_password_that_is_asked_for_is_shown_nowhere(server: OwnServer, home: Home, tmp_path: Path) -> None:
    hba = server.data / "pg_hba.conf"
    hba.write_text(f"host all guarded 127.0.0.1/32 scram-sha-256\n{hba.read_text()}")
    quoted = PASSWORD.replace("'", "''")
    server.execute(f"CREATE ROLE guarded LOGIN SUPERUSER PASSWORD '{quoted}'", "SELECT pg_reload_conf()")
    wait_until(lambda: not server.admits("guarded", ""))
    address = server.dsn("shop", "guarded", "127.0.0.1")
    ours, theirs = pty.openpty()

    def type_password() -> None:
        shown = b""
        while b"Password: " not in shown:
            shown += os.read(ours, 4096)
        os.write(ours, f"{PASSWORD}\n".encode())

    threading.Thread(target=type_password, daemon=True).start()
    with capturing(home, tmp_path, address, "--values", "kept", before=["setsid", "--ctty"], stdin=theirs) as capture:
        capture.record_work(server)
        assert processes_with(b"pgdyno")
        assert processes_with(PASSWORD.encode()) == []
        capture.stop()
        assert os.read(ours, 4096) == b"\r\n"
    os.close(ours)
    os.close(theirs)
    assert f"has {STATEMENTS} statements" in capture.output.read_text()
    assert {path.name for path in capture.folder.iterdir()} == FILES
    for path in (capture.output, capture.errors, *capture.folder.iterdir()):
        assert PASSWORD.encode() not in path.read_bytes()


# ---- where the load may run ----


def test_a_load_runs_on_a_copy_and_on_its_server_if_allowed(server: OwnServer, warm_home: Home, tmp_path: Path) -> None:
    rows = 20

    def carts(at: OwnServer) -> int:
        return int(at.value("SELECT count(*) FROM cart", "shop"))

    def run(plan: str, dsn: str, code: ExitCode, allow: str = "false") -> str:
        settings = (f"target.copy.dsn={dsn}", "probe.enabled=false", f"workload.allow_captured={allow}")
        options = [word for each in settings for word in ("--set", each)]
        done = pgdyno(warm_home, tmp_path, "run", plan, "--quiet", *options, code=code)
        return done.stderr

    server.execute("CREATE TABLE cart (id int)", dbname="shop")
    with capturing(warm_home, tmp_path, server.dsn("shop"), "--for", "3s", "--values", "kept", into="load") as capture:
        server.execute(*(f"INSERT INTO cart VALUES ({number})" for number in range(rows)), dbname="shop")
        assert capture.process.wait(PATIENCE_S) == ExitCode.OK, capture.errors.read_text()
    pgdyno(warm_home, tmp_path, "synthesise", "load", "--into", "model", code=ExitCode.OK)
    # a restart changes all that a server says of itself, but for its system identifier and its place
    for dsn in (server.dsn("shop"), server.dsn("shop", host="localhost")):
        for plan in ("load/plan.toml", "model/plan.toml"):
            said = run(plan, dsn, ExitCode.TARGET)
            assert "target copy: the database shop of this server was captured" in said
            assert "--set workload.allow_captured=true" in said
            assert not (tmp_path / "pgdyno-runs").exists()
        server.restart()
    assert carts(server) == rows

    server.stop()
    copy = server.copy(server.folder.with_name("copy"))
    server.start()
    copy.start()
    try:
        run("load/plan.toml", copy.dsn("shop"), ExitCode.OK)
        assert (carts(copy), carts(server)) == (2 * rows, rows)
    finally:
        copy.stop()

    shutil.rmtree(tmp_path / "pgdyno-runs")
    run("load/plan.toml", server.dsn("shop"), ExitCode.OK, allow="true")
    assert carts(server) == 2 * rows
    # a run is resumed with what its plan allowed, and not without
    run_folder = the_run(tmp_path)
    manifest = json.loads((run_folder.path / "manifest.json").read_text())
    assert manifest["plan"]["workload"].pop("allow_captured") is True
    manifest["ended_at"] = manifest["outcome"] = None
    (run_folder.path / "manifest.json").write_text(json.dumps(manifest))
    shutil.rmtree(next((run_folder.path / "trials").iterdir()))
    done = pgdyno(warm_home, tmp_path, "run", "--resume", run_folder.path.name, code=ExitCode.TARGET)
    assert "this server was captured" in done.stderr


def test_log_files_do_not_name_their_server(server: OwnServer, home: Home, tmp_path: Path) -> None:
    server.execute("SELECT 1", dbname="shop")
    words = ("--log", logs(server), "--database", "shop", "--into", "files")
    done = pgdyno(home, tmp_path, "capture", *words, code=ExitCode.OK)
    assert "note: log files do not name their server" in done.stdout
    assert Capture.model_validate_json((tmp_path / "files" / "capture.json").read_text()).server is None
