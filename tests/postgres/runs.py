"""Runs of the installed pgdyno on servers of a separate home, and the processes that they start."""

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgdyno.store import RunFolder, list_runs
from pgdyno.targets import Home
from pgdyno.targets.cluster.instance_record import RECORD, InstanceRecord
from tests.forked import PGDYNO, run_pgdyno
from tests.processes import find_processes, processes_with
from tests.waiting import wait_until


def environment(home: Home) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return {**clean, "PGDYNO_HOME": str(home.path), "PGDYNO_LOCKS": os.environ["PGDYNO_LOCKS"]}


def without_look(args: Sequence[str]) -> list[str]:
    """Returns `args` without the preflight's measurements of the machine, which take two cores for 2 s.

    tests/cli/test_doctor.py and tests/postgres/test_fingerprint.py test these measurements.
    """
    return [*args, "--no-preflight"] if args[0] == "run" else list(args)


def pgdyno(home: Home, tmp_path: Path, *args: str, code: int | None = None) -> subprocess.CompletedProcess[str]:
    """Runs pgdyno, which must end with `code` if that is given."""
    try:
        # one that hangs says where
        env = {**environment(home), "PYTHONFAULTHANDLER": "1"}
        done = run_pgdyno(without_look(args), cwd=tmp_path, env=env)
    except subprocess.TimeoutExpired as hanging:
        pytest.fail(f"{args} hangs:\n{str(hanging.stdout)[-2000:]}\n{str(hanging.stderr)[-12000:]}")
    assert code in (None, done.returncode), done.stdout + done.stderr
    return done


FAST_SERVER = 'kind = "embedded"\nversion = "18"\nsettings = { fsync = "off", shared_buffers = "16MB" }'


def fast_plan(workload: str, sweep: str, trial: str, targets: Sequence[str] = ("a",), server: str = FAST_SERVER) -> str:
    """Returns a plan on servers, of version 18 and without waits for disks by default; its last section is [trial]."""
    servers = "".join(f"[target.{name}]\n{server}\n" for name in targets)
    return f'name = "small"\n{servers}[workload]\n{workload}\n[sweep]\n{sweep}\n[trial]\n{trial}\n'


def run_plan_text(
    home: Home, folder: Path, plan: str, *options: str, code: int | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a plan with this text in `folder`."""
    (folder / "plan.toml").write_text(plan)
    return pgdyno(home, folder, "run", "plan.toml", *options, code=code)


def the_run(tmp_path: Path) -> RunFolder:
    (entry,) = list_runs(tmp_path / "pgdyno-runs")
    return RunFolder.open(entry.path)


@contextmanager
def running(home: Home, tmp_path: Path, plan: Path, until: str = "log/engine.log") -> Iterator[subprocess.Popen[str]]:
    """Starts a run, and yields once its first trial has an engine, or once its folder contains the file `until`.

    The trial goes on meanwhile: its statements must last until the test has done its work (`Hold`).
    """
    process = subprocess.Popen(
        [PGDYNO, *without_look(["run", str(plan)])], cwd=tmp_path, env=environment(home), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:

        def has_begun() -> bool:
            assert process.poll() is None, process.communicate()
            with suppress(FileNotFoundError):  # folders come and go meanwhile
                return any(tmp_path.glob(f"pgdyno-runs/*/.0001-*.partial/{until}"))
            return False

        wait_until(has_begun)
        if until.endswith("engine.log"):
            wait_until(lambda: engines(home))
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


@contextmanager
def pgdyno_process(
    home: Home, folder: Path, *args: str, env: Mapping[str, str] = {}, within: Sequence[str] = ()
) -> Iterator[subprocess.Popen[bytes]]:
    """Starts pgdyno, with its output in `folder`/said; it does not outlive the block. `within` is a command prefix."""
    with (folder / "said").open("wb") as said:
        command, env = [*within, str(PGDYNO), *args], {**environment(home), **env}
        process = subprocess.Popen(command, cwd=folder, env=env, stdout=said, stderr=said)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def postmasters(home: Home) -> list[int]:
    return processes_with(b"\0-D\0" + os.fsencode(home.root))


def engines(home: Home) -> set[int]:
    """Returns the engines that were started under `home`, by their environment: other tests may run at the same
    time.
    """
    place = os.fsencode(home.path)
    return set(
        find_processes(
            lambda each: (each / "comm").read_text() == "pgdrive\n" and place in (each / "environ").read_bytes()
        )
    )


class Hold:
    """A file for whose lifetime the statements of `script` do not end, so that a trial lasts until a test has seen what
    it waits for.
    """

    def __init__(self, folder: Path) -> None:
        """Holds from now on; the server's user must be able to enter `folder`."""
        self.file = folder / "hold"
        self.file.touch()

    @property
    def condition(self) -> str:
        """SQL that is true until the file is released."""
        return f"(pg_stat_file('{self.file}', true)).size IS NOT NULL"

    @property
    def script(self) -> str:
        return f"DO $$ BEGIN WHILE {self.condition} LOOP PERFORM pg_sleep(0.02); END LOOP; END $$;\n"

    def release(self) -> None:
        self.file.unlink()


def connect_by(record: Path) -> psycopg.Connection[tuple[Any, ...]]:
    """Connects to the server that another pgdyno runs, by its record; raises psycopg.OperationalError without one."""
    try:
        instance = InstanceRecord.model_validate_json(record.read_bytes())
        port = (Path(instance.data_directory) / "postmaster.pid").read_text().splitlines()[3]
    except (ValueError, OSError, IndexError) as error:
        raise psycopg.OperationalError(str(error)) from error
    return psycopg.connect(host=instance.socket_directory, port=port, user="postgres", dbname="pgdyno", autocommit=True)


def active_sessions(home: Home) -> int:
    """Returns the sessions of engines that execute a statement, on all servers that runs in this home have started."""
    found = 0
    for record in home.instances.glob(f"*/{RECORD}"):
        with suppress(psycopg.OperationalError), connect_by(record) as connection:
            query = "SELECT FROM pg_stat_activity WHERE application_name LIKE 'pgdrive%' AND state = 'active'"
            found += len(connection.execute(query).fetchall())
    return found
