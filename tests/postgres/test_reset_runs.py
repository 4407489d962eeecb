"""Whole runs with [reset]: the steps stored with a trial, what a later run reuses, and interrupted runs.

Snapshots of a cluster by its file system: the tests create btrfs and XFS in files and mount them, which needs root and
a kernel that supports them. For ZFS, `PGDYNO_TEST_ZFS=/tank/somewhere` names a folder on it. If a file system is not
available, the test warns, and tests instead that pgdyno refuses the method.
"""

import json
import os
import shutil
import signal
import subprocess
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgdyno.errors import ExitCode, TargetError
from pgdyno.mounts import mounted_at
from pgdyno.plan.optional_sections import SnapshotMethod
from pgdyno.prepare import Dataset
from pgdyno.records import Outcome, Stage, TrialRecord
from pgdyno.store import RunFolder, list_runs
from pgdyno.targets import Home, Server
from pgdyno.targets.cluster.snapshots.btrfs import is_subvolume
from pgdyno.targets.cluster.snapshots.cluster_copy import WORDS, best_method, refusal_of
from tests.forked import PGDYNO
from tests.postgres.runs import environment, fast_plan, pgdyno
from tests.postgres.servers import embedded, execute, opened, preparer, rows
from tests.present import present
from tests.processes import find_processes
from tests.waiting import PATIENCE_S, wait_until


@dataclass
class Runs:
    home: Home
    folder: Path

    def plan(self, method: str, scale: int = 1, duration: str = "0.3s", repeats: int = 1) -> str:
        path = self.folder / "small.toml"
        trial = f'duration = "{duration}"\nrepeats = {repeats}\n[reset]\nmethod = "{method}"'
        text = fast_plan(f'scripts = ["tpcb-like"]\nscale = {scale}', "clients = 1\nrate = 100", trial)
        path.write_text(text.replace("[workload]", "keep_data = true\n[workload]"))
        return str(path)

    def start(self, plan: str, **environ: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [PGDYNO, "run", plan, "--no-preflight"],
            cwd=self.folder, env=environment(self.home) | environ, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )  # fmt: skip

    def run(self, plan: str, code: ExitCode = ExitCode.OK) -> tuple[str, str]:
        done = pgdyno(self.home, self.folder, "run", plan, code=code)
        return done.stdout, done.stderr

    def assert_the_next_is_well(self, plan: str) -> None:
        self.run(plan)
        for trial in trials(self.folder):
            assert trial.outcome is Outcome.FINISHED
            # rows and sums, from a dataset in which nothing had been changed
            assert (present(trial.consistency).scope, present(trial.consistency).violations) == ("full", [])


@pytest.fixture
def runs(warm_home: Home, tmp_path: Path) -> Runs:
    return Runs(warm_home, tmp_path)


def trials(folder: Path) -> list[TrialRecord]:
    newest = max(list_runs(folder / "pgdyno-runs"), key=lambda entry: entry.path.stat().st_mtime_ns)
    return RunFolder.open(newest.path).trials()


def steps(trial: TrialRecord) -> list[str]:
    return [step.name for step in present(trial.prepare).steps]


@pytest.mark.long
@pytest.mark.parametrize("method", ["template", "snapshot"])
def test_a_later_run_finds_earlier_data(runs: Runs, tmp_path: Path, method: str) -> None:
    out, _ = runs.run(runs.plan(method, repeats=2))
    first, second = trials(tmp_path)
    assert steps(first)[0] == "load"
    assert "load" not in steps(second)
    assert present(second.consistency).violations == []
    assert f"reset: {method}" in out
    assert "Preparing 2 trials took " in next(tmp_path.glob("pgdyno-runs/*/report.html")).read_text()
    stored = json.loads(next(tmp_path.glob("pgdyno-runs/*/trials/0002-*/trial.json")).read_text())
    assert (stored["prepare"]["method"], stored["consistency"]["scope"]) == (method, "full")
    runs.run(runs.plan(method))
    (third,) = trials(tmp_path)
    assert steps(third) == steps(second)


def connect(home: Home) -> psycopg.Connection[Any]:
    def written() -> list[list[str]]:
        files = home.clusters.glob("*/data/postmaster.pid")
        return [lines for lines in (file.read_text().splitlines() for file in files) if len(lines) >= 8]

    wait_until(written)
    (lines,) = written()
    return psycopg.connect(host=lines[4], port=int(lines[3]), user="postgres", dbname="pgdyno", autocommit=True)


def test_a_foreign_write_is_found(runs: Runs, tmp_path: Path) -> None:
    def write() -> None:
        wait_until(lambda: list(tmp_path.glob("pgdyno-runs/*/trials/0001-*")))
        with connect(runs.home) as connection:
            connection.execute("UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = 7")

    with ThreadPoolExecutor() as pool:
        writer = pool.submit(write)
        out, err = runs.run(runs.plan("vacuum", duration="1s", repeats=3), ExitCode.TRIALS_FAILED)
        writer.result(PATIENCE_S)
    first, *later = trials(tmp_path)
    assert first.outcome is Outcome.FINISHED
    # on a busy machine the write may be in the third one
    failed, other = sorted(later, key=lambda trial: trial.outcome is Outcome.FINISHED)
    assert (failed.outcome, other.outcome) == (Outcome.FAILED, Outcome.FINISHED)
    assert present(failed.failure).stage is Stage.VERIFY
    assert "the sums changed by accounts" in present(failed.failure).message
    assert present(failed.consistency).changes["accounts"] == present(failed.consistency).changes["history"] + 1
    # its figures were taken, and are kept
    assert failed.summary is not None
    for text in (err, " ".join(out.split())):
        assert "the dataset is not consistent after the trial" in text
    page = next(tmp_path.glob("pgdyno-runs/*/report.html")).read_text()
    assert "the dataset is not consistent after the trial" in page


def read_until(process: subprocess.Popen[str], beginning: str) -> None:
    for line in present(process.stderr):
        if line.startswith(beginning):
            return
    raise AssertionError(f"the run ended before it said {beginning!r}")


@pytest.mark.long_cases("15]", "reload")
@pytest.mark.parametrize(
    ("method", "moment", "number"),
    [
        ("template", "creating the template", signal.SIGKILL),
        ("template", "copying the template", signal.SIGTERM),
        ("reload", "loading", signal.SIGKILL),
    ],
)
def test_a_run_ended_in_the_midst_loses_nothing(runs: Runs, method: str, moment: str, number: signal.Signals) -> None:
    process = runs.start(runs.plan(method, scale=2))
    read_until(process, moment)
    process.send_signal(number)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode != 0
    runs.assert_the_next_is_well(runs.plan(method, scale=2))


@pytest.mark.long
@pytest.mark.parametrize(
    ("moment", "number"),
    [
        ("copying the cluster", signal.SIGINT),
        ("copying the cluster", signal.SIGKILL),
        ("restoring the cluster", signal.SIGKILL),
    ],
)
def test_a_run_ended_while_it_copies_the_cluster_loses_nothing(
    runs: Runs, scratch: Path, moment: str, number: signal.Signals
) -> None:
    place = "data.partial" if moment.startswith("restoring") else "snapshot.partial"
    process = runs.start(runs.plan("snapshot"), PATH=f"{slow_cp(scratch, place)}:{os.environ['PATH']}")

    def has_begun() -> bool:
        assert process.poll() is None, process.communicate()
        return half_there(runs.home, place)

    try:
        wait_until(has_begun)
    finally:
        process.send_signal(number)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode != 0
    assert "Traceback" not in err
    # pgdyno ends the copy, unless it is killed: then the copy gets SIGINT from the kernel, which this one ignores
    assert bool(copies(runs.home)) == (number is signal.SIGKILL)
    runs.assert_the_next_is_well(runs.plan("snapshot"))
    assert copies(runs.home) == []
    clusters = runs.home.clusters
    assert [*clusters.glob("*/*.partial"), *clusters.glob("*/data.discarded"), *clusters.glob("*/*/half")] == []


def half_there(home: Home, place: str) -> bool:
    try:
        return any(home.clusters.glob(f"*/{place}/**/half"))
    except FileNotFoundError:
        return False  # folders come and go meanwhile


def slow_cp(folder: Path, place: str) -> Path:
    """A `cp` that stops halfway if it copies to `place`, and then continues, even after SIGINT."""
    folder = folder / "bin"
    folder.mkdir()
    program = folder / "cp"
    program.write_text(
        "#!/bin/sh\n"
        "for last; do :; done\n"
        f'case "$last" in *{place}*/file|*reflink*) exec /bin/cp "$@";; *{place}*) ;; *) exec /bin/cp "$@";; esac\n'
        "trap '' INT\n"
        'cp=/bin/cp; $cp "$@"; rm -rf "$last/base"; touch "$last/half"\n'
        'while test -e "$last/half"; do sleep 0.1; done\n'
    )
    program.chmod(0o755)
    return folder


def copies(home: Home) -> list[int]:
    place = os.fsencode(home.root)
    return find_processes(
        lambda each: (each / "comm").read_text() == "cp\n" and place in (each / "cmdline").read_bytes()
    )


SMALL_SETTINGS = {"fsync": "off", "shared_buffers": "32MB", "autovacuum": "off", "max_wal_size": "64MB"}
SMALL = Dataset("pgbench", 1)
PLACES: dict[SnapshotMethod, str] = {"btrfs": "btrfs", "reflink": "xfs"}
ABSENT = "is not tested here, only that it is refused"
SIZE_BYTES = 600 << 20
"""The file is sparse, so that unused space takes no room. XFS needs at least 300 MB."""


class MountError(Exception):
    """This machine cannot create or mount such a file system."""


@contextmanager
def file_system(kind: str, folder: Path) -> Iterator[Path]:
    """Mounts a new file system below `folder` until the block ends. Raises MountError."""
    if os.geteuid() != 0:
        raise MountError("only root may mount")
    if shutil.which(f"mkfs.{kind}") is None:
        raise MountError(f"there is no mkfs.{kind}")
    image, place = folder / f"{kind}.img", folder / kind
    with image.open("wb") as file:
        file.truncate(SIZE_BYTES)
    place.mkdir()
    run_command(f"mkfs.{kind}", str(image))
    run_command("mount", "-t", kind, "-o", "loop", str(image), str(place))
    try:
        place.chmod(0o755)
        yield place
    finally:
        run_command("umount", str(place))


def run_command(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise MountError(f"{' '.join(command)} failed: {done.stderr.strip()}")


@contextmanager
def place_for(way: SnapshotMethod, scratch: Path) -> Iterator[Path]:
    if way == "zfs":
        if "PGDYNO_TEST_ZFS" not in os.environ:
            raise MountError("PGDYNO_TEST_ZFS names no folder")
        yield Path(os.environ["PGDYNO_TEST_ZFS"])
    else:
        with file_system(PLACES[way], scratch) as place:
            yield place


def server_in(place: Path, home: Home) -> AbstractContextManager[Server]:
    return opened(home, embedded(settings=SMALL_SETTINGS, environment={"data": str(place)}), "snapshots")


def balances(server: Server) -> tuple[int, int]:
    (found,) = rows(server, "SELECT count(*), sum(abalance) FROM pgbench_accounts")
    return found[0], found[1]


def spoil(server: Server) -> None:
    execute(
        server,
        "UPDATE pgbench_accounts SET abalance = 7 WHERE aid % 3 = 0",
        "DELETE FROM pgbench_accounts WHERE aid % 5 = 0",
        "CREATE DATABASE more",
    )


@pytest.mark.long_cases("btrfs", "reflink")
@pytest.mark.filterwarnings(f"always:.*{ABSENT}")
@pytest.mark.parametrize("way", ["btrfs", "reflink", "zfs"])
def test_the_cluster_comes_back(way: SnapshotMethod, home: Home, scratch: Path) -> None:
    try:
        with place_for(way, scratch) as place:
            comes_back(way, place, home)
            assert [entry for entry in place.iterdir() if entry.name.startswith("pgdyno-")] == []
    except MountError as reason:
        warnings.warn(f'snapshot = "{way}" {ABSENT}: {reason}', stacklevel=1)
        is_refused(way, scratch, home)


def comes_back(way: SnapshotMethod, place: Path, home: Home) -> None:
    with server_in(place, home) as server:
        # found by itself where it is the best; then asked for by its name, which finds what was made
        for asked in (None, way):
            first = preparer(server, method="snapshot", snapshot=asked).prepare(SMALL)
            assert balances(server) == (100_000, 0)
            spoil(server)
            second = preparer(server, method="snapshot", snapshot=asked).prepare(SMALL)
            assert balances(server) == (100_000, 0)
            assert rows(server, "SELECT 1 FROM pg_database WHERE datname = 'more'") == []
            assert [step.detail for step in second.steps if step.name == "restore"] == [WORDS[way]]
        assert "copy" not in [step.name for step in first.steps]
        owner = server.copy.account.uid
        assert {path.lstat().st_uid for path in [server.data_directory, *server.data_directory.rglob("*")]} == {owner}
        assert server.data_directory.stat().st_mode & 0o777 == 0o700
        assert is_subvolume(server.data_directory) == (way == "btrfs")
        if way != "zfs":
            is_brought_back_when_that_broke_off(server)


def is_brought_back_when_that_broke_off(server: Server) -> None:
    spoil(server)
    server.stop()
    server.data_directory.rename(server.data_directory.with_name("data.discarded"))
    assert server.copy.is_restoring()
    server.start()
    server.prepare(set_password=True)
    assert balances(server) == (100_000, 0)


def is_refused(way: SnapshotMethod, place: Path, home: Home) -> None:
    if refusal_of(way, place, kept=False) is None:
        # the machine's own file system can do what could not be made in a file
        comes_back(way, place, home)
        return
    with server_in(place, home) as server:
        with pytest.raises(TargetError, match=f'as snapshot = "{way}" requires: '):
            preparer(server, method="snapshot", snapshot=way).prepare(SMALL)
        assert server.alive()
        assert balances(server) == (100_000, 0)


def test_memory_can_do_none_of_them() -> None:
    memory = Path("/dev/shm")
    assert present(mounted_at(memory)).kind == "tmpfs"
    ways: list[SnapshotMethod] = ["btrfs", "reflink", "zfs"]
    assert None not in [refusal_of(way, memory, kept=False) for way in ways]
    assert best_method(memory, kept=False) == "copy"
