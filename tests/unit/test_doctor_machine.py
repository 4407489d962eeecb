"""Checks of other programs, of limits, and of the generator's ceiling."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pgdyno.doctor import Needs, Place, cpu, generator, machine, memory, storage
from pgdyno.doctor.cpu import CpuTimes
from pgdyno.doctor.generator import Ceiling
from pgdyno.doctor.system import System
from pgdyno.messages import Message
from pgdyno.records import Check
from tests.unit.doctor_sample import CGROUP_2, tree


def stat(pid: int, name: str, parent: int) -> dict[str, str]:
    return {f"proc/{pid}/stat": f"{pid} ({name}) S {parent} {pid} {pid} 0 -1 4194304\n"}


OWN = stat(1, "init", 0) | stat(10, "bash", 1) | stat(11, "pgdyno", 10)


@pytest.mark.parametrize(("busy", "verdict"), [(0, "good"), (29, "good"), (30, "note"), (100, "warning")])
def test_load(tmp_path: Path, busy: int, verdict: str) -> None:
    system = tree(tmp_path, {"proc/loadavg": "0.52 0.41 0.30 1/200 4711\n"})
    check = machine.load(system, CpuTimes(50, 50, 0), CpuTimes(50 + busy, 1050 - busy, 0))
    assert check.verdict == verdict
    assert check.measured == {"busy_share": busy / 1000, "load_1_min": 0.52}


def test_nothing_else_runs(tmp_path: Path) -> None:
    system = tree(tmp_path, OWN | stat(12, "postgresql-exporter", 1))
    assert machine.others(system, 11).verdict == "good"


def test_a_server_with_its_processes_is_one(tmp_path: Path) -> None:
    system = tree(tmp_path, OWN | stat(20, "postgres", 1) | stat(21, "postgres", 20) | stat(22, "postgres", 20))
    check = machine.others(system, 11)
    assert (check.verdict, check.found) == ("note", "1 postgres")


def test_a_server_that_has_ended_is_none(tmp_path: Path) -> None:
    files = {"proc/20/stat": "20 (postgres) Z 1 0 0"}
    assert machine.others(tree(tmp_path, OWN | files), 11).verdict == "good"


def test_another_run_is_worse_than_a_server(tmp_path: Path) -> None:
    files = stat(20, "postgres", 1) | stat(30, "pgdyno", 1) | stat(31, "a (b) c", 30) | stat(32, "pgbench", 31)
    check = machine.others(tree(tmp_path, OWN | files), 11)
    assert (check.verdict, check.found) == ("warning", "1 pgbench, 1 pgdyno, 1 postgres")


def test_this_process_is_seen_here() -> None:
    assert os.getpid() in machine.processes(System())


LIMITS = "Limit                     Soft Limit           Hard Limit           Units     \n"


def open_files(soft: str, hard: str) -> dict[str, str]:
    return {"proc/self/limits": f"{LIMITS}{'Max open files':26}{soft:21}{hard:21}files     \n"}


@pytest.mark.parametrize(
    ("soft", "hard", "clients", "verdict"),
    [
        ("1024", "4096", 100, "good"),
        ("1024", "4096", 4000, "good"),
        ("1024", "4096", 4096, "stop"),
        ("1024", "unlimited", 100_000, "good"),
    ],
)
def test_open_files(tmp_path: Path, soft: str, hard: str, clients: int, verdict: str) -> None:
    check = machine.open_files(tree(tmp_path, open_files(soft, hard)), Needs(clients=clients))
    assert check.verdict == verdict


def test_a_limit_of_processes(tmp_path: Path) -> None:
    files = open_files("1024", "9000") | CGROUP_2 | {"sys/fs/cgroup/a/b/pids.max": "150"}
    system = tree(tmp_path, files)
    assert machine.open_files(system, Needs(plan="p", servers=1, clients=50)).verdict == "good"
    assert machine.open_files(system, Needs(plan="p", servers=1, clients=100)).verdict == "stop"
    # a server elsewhere has its processes elsewhere
    assert machine.open_files(system, Needs(plan="p", servers=0, clients=100)).verdict == "good"


REACHED = Ceiling(tps=100_000, p50_us=80, clients=8, workers=1, threads=1)


@pytest.mark.parametrize(
    ("rate", "verdict"), [(None, "good"), (1_000.0, "good"), (50_000.0, "note"), (80_000.0, "warning")]
)
def test_ceiling(rate: float | None, verdict: str) -> None:
    needs = Needs(plan="p", scripts=("-b", "tpcb-like@9", "-b", "select-only"), rate_per_s=rate)
    check = generator.ceiling(needs, REACHED)
    assert check.verdict == verdict
    assert "100,000 transactions per second (tpcb-like@9 select-only; simple) with 8 clients on 1 worker" in check.found
    assert rate is not None or "70,000" in check.means


def test_the_ceiling_of_files_is_of_another_script_and_says_so() -> None:
    assert "instead of the plan's files" in generator.ceiling(Needs(plan="p"), REACHED).found


@pytest.mark.parametrize(("median", "verdict"), [(12, "good"), (250, "note"), (1_500, "warning")])
def test_round_trip(median: float, verdict: str) -> None:
    check = generator.round_trip(Needs(statements=7), median, Message("path", "to pgnull"))
    assert check.verdict == verdict
    assert f"7 statements takes at least {7 * median:.3g} µs" in check.means


PLACE = Place(Path("/data"), ("data of a",))
SETS = Needs(plan="p", servers=1, shared_buffers=(1 << 30,), datasets=(1 << 30,))


@pytest.mark.parametrize(
    "check",
    [
        lambda system: cpu.cores(system, SETS), lambda system: cpu.steal(system, None, None), cpu.source, memory.swap,
        lambda system: memory.size(system, SETS), lambda system: memory.dataset(system, SETS), memory.transparent,
        lambda system: memory.huge_pages(system, SETS), lambda system: machine.load(system, None, None),
        lambda system: machine.others(system, 11), lambda system: machine.open_files(system, SETS),
        lambda system: storage.file_system(system, PLACE), lambda system: storage.mount_options(system, PLACE),
    ],
)  # fmt: skip
def test_what_the_kernel_does_not_tell_is_unknown(tmp_path: Path, check: Callable[[System], Check]) -> None:
    assert check(System(tmp_path)).verdict == "unknown"
