"""`--cluster`: analyses, reports and imports in several processes give the same output as in one."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pgdyno.commands.analyse import analyse
from pgdyno.commands.import_export import import_
from pgdyno.commands.report import report
from pgdyno.commands.support.each_run import Lost, executor_for
from pgdyno.errors import ExitCode, StoreError, UsageError
from pgdyno.report.export import to_csv
from pgdyno.store import find_run, load_run
from pgdyno.store.find_runs import named_runs
from pgdyno.store.object_storage.address import Address
from pgdyno.store.object_storage.runs import open_run, upload
from pgdyno.targets.cluster.processes import identify
from tests.s3 import Bucket, object_storage
from tests.unit import documents_sample as documents
from tests.unit.archive_sample import run_of
from tests.waiting import wait_until

pytestmark = pytest.mark.long

HERE, THERE = (), ("local:2",)


@pytest.fixture(scope="module")
def bucket() -> Iterator[Bucket]:
    with object_storage() as bucket:
        yield bucket


@pytest.fixture(scope="module")
def runs(bucket: Bucket, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Runs that differ, four on object storage and two on a disk; one there is broken."""
    made = [tmp_path_factory.mktemp(name) for name in ("far", "near")]
    for at in range(6):
        run = run_of(made[at // 4], hours=at, tps=400 + 50 * at, version=f"1{at}.1")
        if at < 4:
            upload(run, Address.parse("s3://bench/runs"))
    bucket.put("runs/20261120T110000Z-half/trials/0001-x/trial.json")
    return ["s3://bench/runs", str(made[1])]


def test_an_analysis_is_the_same(runs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    for is_json in (False, True):
        said = []
        for cluster in (HERE, THERE):
            assert analyse(runs, latency="p99 < 10ms", json=is_json, cluster=list(cluster)) is ExitCode.STORE
            said.append(capsys.readouterr())
        assert said[0] == said[1]
        assert said[0].out.count("s3://bench/runs/2026") == 4 + 2 * is_json
        assert said[0].out.count(f"{runs[1]}/2026") == 2
        assert "20261120T110000Z-half: it has no manifest.json" in said[0].err


def first_of(runs: list[str]) -> str:
    return named_runs(runs, Path()).places[0]


def test_pages_are_alike(runs: list[str], bucket: Bucket, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    places = {HERE: str(tmp_path / "here"), THERE: str(tmp_path / "there")}
    for cluster, place in places.items():
        for where in (place, None):
            csv = tmp_path / f"{len(cluster)}.csv"
            assert report(runs, html=where, csv=csv, each=True, cluster=list(cluster)) is ExitCode.STORE
    here, there = ({path.name: path.read_bytes() for path in Path(place).iterdir()} for place in places.values())
    assert len(here) == 6
    assert here == there
    rows = (tmp_path / "0.csv").read_text()
    assert rows == (tmp_path / "1.csv").read_text()
    assert len(rows.splitlines()) == 1 + 6 * 2
    assert rows.splitlines()[:3] == to_csv(load_run(find_run(first_of(runs), Path()))).splitlines()
    # without a folder, the processes write the pages themselves, next to the runs
    name = first_of(runs).rpartition("/")[2]
    assert bucket.get(f"runs/{name}/report.html") == here[f"{name}.html"]
    assert capsys.readouterr().out.count("s3://bench/runs/") == 2 * 4


def test_an_import_is_the_same(bucket: Bucket, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for at, text in enumerate((documents.pgbench_report(), documents.statements_report())):
        bucket.put(f"logs/{at}.txt", text.encode())
    for pid in (7, 8, 9):
        lines = (f"{client} 1 {client + pid} 0 1764000000 {client}\n" for client in range(50))
        bucket.put(f"logs/pgbench_log.{pid}", "".join(lines).encode())
    found = []
    for cluster in (HERE, THERE):
        import_(["s3://bench/logs/*"], "s3://bench/imported", json=True, cluster=list(cluster))
        told = json.loads(capsys.readouterr().out)
        with open_run(told["run"]) as folder:
            run = load_run(folder)
            times: dict[str, Any] = {"run": "", "started_at": None, "ended_at": None}
            rows = run.intervals(), run.histograms(), run.statements(), run.trials
            found.append((run.manifest.model_dump() | times, told["trials"], told["unread"], rows))
    assert found[0] == found[1]
    assert found[0][1] == 12 + 3 + 3
    bucket.put("logs/pgbench_log.8", b"0 1 900 0 1764000000 1\nnothing of pgbench's\n")
    for cluster in (HERE, THERE):
        with pytest.raises(StoreError, match=r"cannot read the log s3://bench/logs/pgbench_log\.8"):
            import_(["s3://bench/logs/*"], str(tmp_path), json=True, cluster=list(cluster))
    assert not list(tmp_path.iterdir()), "an import that failed leaves nothing"


@pytest.mark.parametrize("place", ["local", "local:0", "local:65", "ssh://host1", "ray://head:10001"])
def test_processes_of_other_hosts_are_refused(runs: list[str], place: str) -> None:
    with pytest.raises(UsageError, match=f"--cluster: '{place}' is not local:N") as raised:
        analyse(runs, json=True, cluster=[place])
    assert "pgdyno copy" in (raised.value.hint or "")


# ---- the processes themselves ----


def squared(number: int) -> int:
    if number == 3:
        raise StoreError("cannot square 3", hint="leave it out")
    return number * number


def ended(folder: Path, number: int) -> int:
    """Ends its process: for 3 each time, for 4 the first time."""
    if number == 3 or (number == 4 and not (folder / "tried").exists()):
        (folder / "tried").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_an_error_is_the_one_that_was_raised() -> None:
    for place in (HERE, THERE):
        with executor_for(place) as way:
            found = way(squared, range(10))
            assert [next(found) for _ in range(3)] == [0, 1, 4]
            with pytest.raises(StoreError, match="cannot square 3") as raised:
                next(found)
            assert raised.value.hint == "leave it out"


def test_work_that_kills_its_process_is_lost_and_the_rest_continues(tmp_path: Path) -> None:
    with executor_for(THERE) as way:
        found = list(way(partial(ended, tmp_path), range(8)))
    assert [each for each in found if not isinstance(each, Lost)] == [0, 1, 2, 4, 5, 6, 7]
    assert isinstance(found[3], Lost)
    assert found[3].why == "its process ended each of 3 times: signal 9"


WAITING = """
import sys, time
from functools import partial
from pathlib import Path
from tests.cli.test_cluster_analysis import waiting
from pgdyno.commands.support.each_run import executor_for
if __name__ == "__main__":
    with executor_for(["local:2"]) as way:
        print(*way(partial(waiting, Path(sys.argv[1])), range(4)))
"""


def waiting(folder: Path, number: int) -> int:
    """Keeps a file until it is interrupted, as work keeps what it has downloaded."""
    file = folder / f"{number}-{os.getpid()}"
    file.touch()
    try:
        while not (folder / "go").exists():
            time.sleep(0.05)
    finally:
        file.unlink()
    return number


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_signal_ends_all_processes(tmp_path: Path, number: int) -> None:
    (tmp_path / "work").mkdir()
    script = tmp_path / "script.py"
    script.write_text(WAITING)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, script, tmp_path / "work"], env=environment, stderr=subprocess.PIPE
    ) as process:
        wait_until(lambda: len(list((tmp_path / "work").iterdir())) == 2)
        pids = [int(file.name.partition("-")[2]) for file in (tmp_path / "work").iterdir()]
        process.send_signal(number)
        if number == signal.SIGKILL:
            # nothing interrupts the work, whose result nobody takes
            (tmp_path / "work" / "go").touch()
        _, said = process.communicate()
    wait_until(lambda: all(identify(pid) is None for pid in pids))
    assert {file.name for file in (tmp_path / "work").iterdir()} <= {"go"}
    # one traceback, of the command, which here has no handlers
    assert said.count(b"Traceback") == (number == signal.SIGINT)
