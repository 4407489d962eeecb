"""Checks of processors, the clock, other programs, limits and the generator's ceiling, on artificial trees."""

import os
from pathlib import Path

import pytest

from pgdyno.doctor import Needs, Place, cpu, generator, machine, memory, process_limits, round_trips, storage
from pgdyno.doctor.cpu import ClockCost, CpuTimes
from pgdyno.doctor.generator import Ceiling
from pgdyno.doctor.system import System, count_of_list
from pgdyno.messages import Message
from tests.unit.doctor_sample import CGROUP_1, CGROUP_2, tree

STATUS = {"proc/self/status": "Name:\tpgdyno\nCpus_allowed_list:\t0-7\n"}
FREQUENCY = "sys/devices/system/cpu"
GUEST = {"proc/cpuinfo": "model name : X\nflags : fpu hypervisor sse\n"}
METAL = {"proc/cpuinfo": "model name : X\nflags : fpu sse\n"}
LOCAL, REMOTE = Needs(plan="p", servers=1), Needs(plan="p", servers=0)
PERIOD = "sys/fs/cgroup/cpu/x/cpu.cfs_period_us"
QUOTA = "sys/fs/cgroup/cpu/x/cpu.cfs_quota_us"

# ---- processors ----


def test_a_kernels_list() -> None:
    for text, count in (("0", 1), ("0-3", 4), ("0-3,8", 5), ("0,2,4-5", 4), ("", None), ("x", None), (None, None)):
        assert count_of_list(text) == count, text


def test_cores(tmp_path: Path) -> None:
    topology = {f"{FREQUENCY}/cpu0/topology/thread_siblings_list": "0,4"}
    check = cpu.cores(tree(tmp_path / "fine", STATUS | topology), LOCAL)
    assert (check.verdict, check.found) == ("good", "8 processors, 2 to a core")
    check = cpu.cores(tree(tmp_path / "nodes", STATUS | {"sys/devices/system/node/online": "0-1"}), LOCAL)
    assert (check.verdict, "numactl" in check.change) == ("note", True)
    few = tree(tmp_path / "few", {"proc/self/status": "Cpus_allowed_list: 1-2\n"})
    assert [cpu.cores(few, needs).verdict for needs in (LOCAL, REMOTE)] == ["note", "good"]


@pytest.mark.parametrize(
    "limits",
    [
        CGROUP_2 | {"sys/fs/cgroup/a/cpu.max": "250000 100000"},
        CGROUP_2 | {"sys/fs/cgroup/a/b/cpu.max": "max 100000", "sys/fs/cgroup/cpu.max": "250000 100000"},
        {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/unified/cpu.max": "250000 100000"},
        CGROUP_1 | {QUOTA: "250000", PERIOD: "100000"},
    ],
)
def test_a_quota_of_the_control_group_is_warned_of(tmp_path: Path, limits: dict[str, str]) -> None:
    check = cpu.cores(tree(tmp_path, STATUS | limits), REMOTE)
    assert (check.verdict, check.measured["limit_cores"]) == ("warning", 2.5)
    assert "cpuset" in check.change


def test_no_quota(tmp_path: Path) -> None:
    assert tree(tmp_path, CGROUP_1 | {QUOTA: "-1", PERIOD: "100000"}).cpu_limit() is None


@pytest.mark.parametrize(
    ("governors", "driver", "verdict"),
    [
        (("performance", "performance"), "acpi-cpufreq", "good"),
        (("performance", "powersave"), "acpi-cpufreq", "warning"),
        (("schedutil", "schedutil"), "acpi-cpufreq", "warning"),
        (("powersave", "powersave"), "intel_pstate", "note"),
        (("powersave", "powersave"), "intel_cpufreq", "warning"),
    ],
)
def test_governors(tmp_path: Path, governors: tuple[str, ...], driver: str, verdict: str) -> None:
    files = {f"{FREQUENCY}/cpu{at}/cpufreq/scaling_governor": f"{name}\n" for at, name in enumerate(governors)}
    files |= {f"{FREQUENCY}/cpu{at}/cpufreq/scaling_driver": f"{driver}\n" for at in range(len(governors))}
    assert cpu.governor(tree(tmp_path, files)).verdict == verdict


def test_a_guest_has_no_governor(tmp_path: Path) -> None:
    check = cpu.governor(tree(tmp_path, GUEST))
    assert (check.verdict, "hypervisor" in check.found) == ("unknown", True)


@pytest.mark.parametrize(
    ("file", "text", "verdict"),
    [
        ("intel_pstate/no_turbo", "0", "note"),
        ("intel_pstate/no_turbo", "1", "good"),
        ("cpufreq/boost", "1", "note"),
        ("cpufreq/boost", "0", "good"),
        ("elsewhere", "0", "unknown"),
    ],
)
def test_turbo(tmp_path: Path, file: str, text: str, verdict: str) -> None:
    assert cpu.turbo(tree(tmp_path, {f"{FREQUENCY}/{file}": text})).verdict == verdict


def test_steal(tmp_path: Path) -> None:
    system = tree(tmp_path / "guest", GUEST)
    for stolen, verdict in ((0, "good"), (4, "good"), (5, "note"), (20, "warning")):
        check = cpu.steal(system, CpuTimes(100, 100, 7), CpuTimes(600, 600 - stolen, 7 + stolen))
        assert (check.verdict, check.measured["steal_share"]) == (verdict, stolen / 1000)
    assert cpu.steal(tree(tmp_path / "metal", METAL), None, None).verdict == "good"


def test_times_of_the_processors(tmp_path: Path) -> None:
    system = tree(tmp_path, {"proc/stat": "cpu  1 2 4 8 16 32 64 128 5 5\ncpu0 9 9 9 9 9 9 9 9\n"})
    assert cpu.cpu_times(system) == CpuTimes(busy=1 + 2 + 4 + 32 + 64, idle=8 + 16, steal=128)
    assert cpu.cpu_times(tree(tmp_path, {"proc/stat": "cpu 1 2\n"})) is None


@pytest.mark.parametrize(
    ("current", "available", "verdict"),
    [
        ("tsc", "tsc hpet acpi_pm", "good"),
        ("kvm-clock", "kvm-clock tsc", "good"),
        ("xen", "xen tsc hpet", "note"),
        ("hpet", "hpet acpi_pm", "warning"),
        ("acpi_pm", "tsc acpi_pm", "warning"),
        ("arch_sys_counter", "arch_sys_counter", "good"),
    ],
)
def test_sources_of_time(tmp_path: Path, current: str, available: str, verdict: str) -> None:
    files = {f"{cpu.FOLDER}/current_clocksource": current, f"{cpu.FOLDER}/available_clocksource": available}
    check = cpu.source(tree(tmp_path, files))
    assert check.verdict == verdict
    assert check.found.startswith(f"{current}; available: ")


@pytest.mark.parametrize(
    ("ns", "share", "verdict"),
    [(25, 0.999, "good"), (99, 0.9, "good"), (100, 0.99, "note"), (300, 0.99, "warning"), (25, 0.89, "warning")],
)
def test_costs_of_the_clock(ns: float, share: float, verdict: str) -> None:
    check = cpu.cost(ClockCost(ns, share))
    assert (check.verdict, check.measured) == (verdict, {"call_ns": ns, "under_1_us_share": share})


def test_the_checks_work_on_this_machine() -> None:
    here = System()
    assert (here.cpus_allowed() or 0) >= 1
    times, cost = cpu.cpu_times(here), cpu.measure_cost()
    assert times is not None
    assert times.total > 0
    # no machine reads a clock in a nanosecond and none on which this runs needs 100 us
    assert 1 < cost.ns < 100_000
    assert 0 < cost.under_1_us <= 1
    assert os.getpid() in machine.processes(here)
    assert memory.size(here, Needs()).verdict != "unknown"


# ---- other programs and limits ----


def stat(pid: int, name: str, parent: int) -> dict[str, str]:
    return {f"proc/{pid}/stat": f"{pid} ({name}) S {parent} {pid} {pid} 0 -1 4194304\n"}


OWN = stat(1, "init", 0) | stat(10, "bash", 1) | stat(11, "pgdyno", 10)
SERVER = stat(20, "postgres", 1)
ANOTHER = stat(30, "pgdyno", 1) | stat(31, "a (b) c", 30) | stat(32, "pgbench", 31)


def test_load(tmp_path: Path) -> None:
    system = tree(tmp_path, {"proc/loadavg": "0.52 0.41 0.30 1/200 4711\n"})
    for busy, verdict in ((0, "good"), (29, "good"), (30, "note"), (100, "warning")):
        check = machine.load(system, CpuTimes(50, 50, 0), CpuTimes(50 + busy, 1050 - busy, 0))
        assert (check.verdict, check.measured) == (verdict, {"busy_share": busy / 1000, "load_1_min": 0.52})


@pytest.mark.parametrize(
    ("files", "verdict", "found"),
    [
        (stat(12, "postgresql-exporter", 1), "good", "nothing"),
        ({"proc/20/stat": "20 (postgres) Z 1 0 0"}, "good", "nothing"),
        # a server with its processes is one
        (SERVER | stat(21, "postgres", 20) | stat(22, "postgres", 20), "note", "1 postgres"),
        # another run is worse than a server
        (SERVER | ANOTHER, "warning", "1 pgbench, 1 pgdyno, 1 postgres"),
    ],
)
def test_other_programs(tmp_path: Path, files: dict[str, str], verdict: str, found: str) -> None:
    check = machine.other_processes(tree(tmp_path, OWN | files), 11)
    assert check.verdict == verdict
    assert found in ("nothing", check.found)


def open_files(soft: str, hard: str) -> dict[str, str]:
    head = "Limit                     Soft Limit           Hard Limit           Units     \n"
    return {"proc/self/limits": f"{head}{'Max open files':26}{soft:21}{hard:21}files     \n"}


@pytest.mark.parametrize(
    ("hard", "clients", "verdict"),
    [("4096", 100, "good"), ("4096", 4000, "good"), ("4096", 4096, "stop"), ("unlimited", 100_000, "good")],
)
def test_open_files(tmp_path: Path, hard: str, clients: int, verdict: str) -> None:
    check = process_limits.open_files(tree(tmp_path, open_files("1024", hard)), Needs(clients=clients))
    assert check.verdict == verdict


def test_a_limit_of_processes(tmp_path: Path) -> None:
    system = tree(tmp_path, open_files("1024", "9000") | CGROUP_2 | {"sys/fs/cgroup/a/b/pids.max": "150"})
    # a server elsewhere has its processes elsewhere
    for servers, clients, verdict in ((1, 50, "good"), (1, 100, "stop"), (0, 100, "good")):
        assert process_limits.open_files(system, Needs(plan="p", servers=servers, clients=clients)).verdict == verdict


# ---- the generator ----


def test_ceiling() -> None:
    reached = Ceiling(tps=100_000, p50_us=80, clients=8, workers=1, threads=1)
    rates = ((None, "good"), (1_000.0, "good"), (50_000.0, "note"), (80_000.0, "warning"))
    for rate, verdict in rates:
        scripts = ("-b", "tpcb-like@9", "-b", "select-only")
        check = generator.ceiling(Needs(plan="p", scripts=scripts, rate_per_s=rate), reached)
        assert check.verdict == verdict
        said = "100,000 transactions per second (tpcb-like@9 select-only; simple) with 8 clients on 1 worker"
        assert said in check.found
        assert rate is not None or "70,000" in check.means
    assert "instead of the plan's files" in generator.ceiling(Needs(plan="p"), reached).found


def test_round_trip() -> None:
    for median, verdict in ((12, "good"), (250, "note"), (1_500, "warning")):
        check = round_trips.round_trip(Needs(statements=7), median, Message("path", "to pgnull"))
        assert check.verdict == verdict
        assert f"7 statements takes at least {7 * median:.3g} µs" in check.means


def test_what_the_kernel_does_not_tell_is_unknown(tmp_path: Path) -> None:
    system, place = System(tmp_path), Place(Path("/data"), ("data of a",))
    sets = Needs(plan="p", servers=1, shared_buffers=(1 << 30,), datasets=(1 << 30,))
    checks = [
        cpu.cores(system, sets), cpu.steal(system, None, None), cpu.source(system), memory.swap(system),
        memory.size(system, sets), memory.dataset(system, sets), memory.transparent(system),
        memory.huge_pages(system, sets), machine.load(system, None, None), machine.other_processes(system, 11),
        process_limits.open_files(system, sets), storage.file_system(system, place),
        storage.mount_options(system, place),
    ]  # fmt: skip
    assert {check.id: check.verdict for check in checks if check.verdict != "unknown"} == {}
