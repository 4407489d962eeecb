"""`--cluster`: analyses, reports and imports as Ray tasks give the same output as without.

One cluster for all: its nodes take seconds to start.
"""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pgdyno.commands.analyse import analyse
from pgdyno.commands.import_export import import_
from pgdyno.commands.report import report
from pgdyno.errors import EngineError, ExitCode, StoreError, UsageError
from pgdyno.generators import ray_tasks
from pgdyno.generators.parallel_map import Lost, Over, Task, in_line
from pgdyno.generators.ray_tasks import open_task_pool
from pgdyno.plan.hosts import Places, generators
from pgdyno.report.export import to_csv
from pgdyno.store import find_run, load_run
from pgdyno.store.find_runs import named_runs
from pgdyno.store.object_storage.address import Address
from pgdyno.store.object_storage.runs import open_run, upload
from pgdyno.targets.cluster.processes import identify
from tests.run_program import run_program
from tests.s3 import Bucket, object_storage
from tests.unit import documents_sample as documents
from tests.unit.archive_sample import run_of
from tests.waiting import wait_until

pytestmark = pytest.mark.long

NODES = 2
HERE, THERE = (), (f"local:{NODES}",)


@pytest.fixture(scope="module")
def bucket() -> Iterator[Bucket]:
    with object_storage() as bucket:
        yield bucket


@pytest.fixture(scope="module")
def cluster(bucket: Bucket) -> Iterator[Over]:
    # nodes find the bucket through the environment in which they start
    del bucket
    with open_task_pool(generators(THERE), lambda _text: None) as way:
        yield way


@pytest.fixture(autouse=True)
def started(monkeypatch: pytest.MonkeyPatch, cluster: Over) -> None:
    """Replaces the start of a cluster by --cluster with the cluster of these tests."""

    @contextmanager
    def there(places: Places, say: Callable[[str], None]) -> Iterator[Over]:
        assert places == Places(local=NODES)
        del say
        yield cluster

    monkeypatch.setattr(ray_tasks, "open_task_pool", there)


@pytest.fixture(scope="module")
def runs(bucket: Bucket, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Runs that differ, four on object storage and two on a disk that all nodes have; one there is broken."""
    made = [tmp_path_factory.mktemp(name) for name in ("far", "near")]
    for at in range(6):
        run = run_of(made[at // 4], hours=at, tps=400 + 50 * at, version=f"1{at}.1")
        if at < 4:
            upload(run, Address.of("s3://bench/runs"))
    bucket.put("runs/20261120T110000Z-half/trials/0001-x/trial.json")
    return ["s3://bench/runs", str(made[1])]


@pytest.mark.parametrize("json", [False, True])
def test_an_analysis_is_the_same(runs: list[str], capsys: pytest.CaptureFixture[str], json: bool) -> None:
    said = []
    for cluster in (HERE, THERE):
        code = analyse(runs, latency="p99 < 10ms", json=json, cluster=list(cluster))
        assert code is ExitCode.STORE
        said.append(capsys.readouterr())
    assert said[0] == said[1]
    assert said[0].out.count("s3://bench/runs/2026") == 4 + 2 * json
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
    # without a folder, nodes write the pages themselves, next to the runs
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


def test_a_place_that_is_none(runs: list[str]) -> None:
    with pytest.raises(UsageError, match="--cluster: 'local' is not a host for generators"):
        analyse(runs, json=True, cluster=["local"])


# ---- the tasks themselves ----


def squared(number: int) -> int:
    if number == 3:
        raise StoreError("cannot square 3", hint="leave it out")
    return number * number


def ended(number: int) -> int:
    if number == 3:
        os._exit(1)
    return number


def has_ended(pid: int) -> bool:
    return identify(pid) is None


def waiting(folder: Path, number: int) -> int:
    """A task that reports where it runs, and waits for permission to continue."""
    import ray

    with (folder / "tries").open("a") as tries:
        tries.write(f"{number}\n")
    partial_file = folder / f".{number}"
    partial_file.write_text(f"{ray.get_runtime_context().get_node_id()} {os.getppid()} {os.getpid()}")
    partial_file.rename(folder / f"at-{number}")
    while not (folder / "go").exists():
        time.sleep(0.05)
    return number


@pytest.fixture(scope="module")
def by_value(cluster: Over) -> Over:
    """Makes functions of this file available to nodes, which do not have the file."""
    from ray import cloudpickle

    register: Callable[[object], None] = cloudpickle.register_pickle_by_value
    register(sys.modules[__name__])
    return cluster


def test_an_error_is_the_one_that_was_raised(by_value: Over) -> None:
    for way in (in_line, by_value):
        found = way(squared, range(10))
        assert [next(found) for _ in range(3)] == [0, 1, 4]
        with pytest.raises(StoreError, match="cannot square 3") as raised:
            next(found)
        assert raised.value.hint == "leave it out"


def test_a_task_that_kills_its_worker_is_lost_and_others_continue(by_value: Over) -> None:
    found = list(by_value(ended, range(6)))
    assert [each for each in found if not isinstance(each, Lost)] == [0, 1, 2, 4, 5]
    assert isinstance(found[3], Lost)
    assert "each of 3 times" in found[3].why


def test_a_node_that_is_killed_costs_time_only(by_value: Over, tmp_path: Path) -> None:
    import ray

    found: list[int | Lost] = []
    thread = threading.Thread(target=lambda: found.extend(by_value(partial(waiting, tmp_path), range(8))))
    thread.start()
    own = ray.get_runtime_context().get_node_id()
    node = None
    while node is None:
        time.sleep(0.05)
        places = [path.read_text().split() for path in tmp_path.glob("at-*")]
        node = next((node for node, _, _ in places if node != own), None)
    os.kill(next(int(parent) for at, parent, _ in places if at == node), signal.SIGKILL)
    # its workers end when they notice; one that is told to go on before could still return its result
    for worker in (int(pid) for at, _, pid in places if at == node):
        wait_until(partial(has_ended, worker))
    (tmp_path / "go").touch()
    thread.join()
    assert found == list(range(8))
    tries = (tmp_path / "tries").read_text().split()
    assert len(tries) > len(set(tries)), "what was on the node has been done again"


SLEEPING = """
import time
from pgdyno.generators.ray_tasks import open_task_pool
from pgdyno.plan.hosts import Places
with open_task_pool(Places(local=1), print) as way:
    print(*way(time.sleep, [3.0]))
"""


def test_a_task_killed_for_lack_of_memory_is_not_repeated_for_ever() -> None:
    # a node that ends what runs on it as soon as it looks
    limits = {"RAY_memory_usage_threshold": "0.01", "RAY_memory_monitor_refresh_ms": "100"}
    done = run_program([sys.executable, "-c", SLEEPING], env=os.environ | limits, check=True)
    assert "each of 3 times" in done.stdout
    assert "low on memory" in done.stdout


def test_another_release_is_refused() -> None:
    with pytest.raises(EngineError, match=r"has pgdyno .*, and this host has 0.0.0"):
        Task("0.0.0", {}).done(squared, 1)
