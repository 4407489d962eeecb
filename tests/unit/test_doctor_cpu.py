"""Checks of processors and of the clock, on artificial trees."""

from pathlib import Path

import pytest

from pgdyno.doctor import Needs, cpu
from pgdyno.doctor.cpu import ClockCost, CpuTimes
from pgdyno.doctor.system import System, count_of_list
from tests.unit.doctor_sample import CGROUP_1, CGROUP_2, tree

STATUS = {"proc/self/status": "Name:\tpgdyno\nCpus_allowed_list:\t0-7\n"}
FREQUENCY = "sys/devices/system/cpu"
GUEST = {"proc/cpuinfo": "model name : X\nflags : fpu hypervisor sse\n"}
METAL = {"proc/cpuinfo": "model name : X\nflags : fpu sse\n"}
LOCAL, REMOTE = Needs(plan="p", servers=1), Needs(plan="p", servers=0)


@pytest.mark.parametrize(
    ("text", "count"), [("0", 1), ("0-3", 4), ("0-3,8", 5), ("0,2,4-5\n", 4), ("", None), ("x", None), (None, None)]
)
def test_a_kernels_list(text: str | None, count: int | None) -> None:
    assert count_of_list(text.strip() if text else text) == count


def test_cores_are_fine(tmp_path: Path) -> None:
    topology = {f"{FREQUENCY}/cpu0/topology/thread_siblings_list": "0,4"}
    check = cpu.cores(tree(tmp_path, STATUS | topology), LOCAL)
    assert (check.verdict, check.found) == ("good", "8 processors, 2 to a core")


@pytest.mark.parametrize(
    "limits",
    [
        CGROUP_2 | {"sys/fs/cgroup/a/cpu.max": "250000 100000"},
        CGROUP_2 | {"sys/fs/cgroup/a/b/cpu.max": "max 100000", "sys/fs/cgroup/cpu.max": "250000 100000"},
        {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/unified/cpu.max": "250000 100000"},
        CGROUP_1
        | {"sys/fs/cgroup/cpu/x/cpu.cfs_quota_us": "250000", "sys/fs/cgroup/cpu/x/cpu.cfs_period_us": "100000"},
    ],
)
def test_a_quota_of_the_control_group_is_warned_of(tmp_path: Path, limits: dict[str, str]) -> None:
    system = tree(tmp_path, STATUS | limits)
    check = cpu.cores(system, REMOTE)
    assert (check.verdict, check.measured["limit_cores"]) == ("warning", 2.5)
    assert "cpuset" in check.change


def test_no_quota(tmp_path: Path) -> None:
    unlimited = {"sys/fs/cgroup/cpu/x/cpu.cfs_quota_us": "-1", "sys/fs/cgroup/cpu/x/cpu.cfs_period_us": "100000"}
    assert tree(tmp_path, CGROUP_1 | unlimited).cpu_limit() is None


def test_few_cores_that_a_server_shares(tmp_path: Path) -> None:
    system = tree(tmp_path, {"proc/self/status": "Cpus_allowed_list: 1-2\n"})
    assert cpu.cores(system, LOCAL).verdict == "note"
    assert cpu.cores(system, REMOTE).verdict == "good"


def test_nodes_of_memory(tmp_path: Path) -> None:
    check = cpu.cores(tree(tmp_path, STATUS | {"sys/devices/system/node/online": "0-1"}), LOCAL)
    assert (check.verdict, "numactl" in check.change) == ("note", True)


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


@pytest.mark.parametrize(("stolen", "verdict"), [(0, "good"), (4, "good"), (5, "note"), (20, "warning")])
def test_steal(tmp_path: Path, stolen: int, verdict: str) -> None:
    before, after = CpuTimes(100, 100, 7), CpuTimes(600, 600 - stolen, 7 + stolen)
    check = cpu.steal(tree(tmp_path, GUEST), before, after)
    assert check.verdict == verdict
    assert check.measured["steal_share"] == stolen / 1000


def test_no_hypervisor_steals_nothing(tmp_path: Path) -> None:
    assert cpu.steal(tree(tmp_path, METAL), None, None).verdict == "good"


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


def test_the_cost_is_measured_here() -> None:
    cost = cpu.measure_cost()
    # no machine reads a clock in a nanosecond and none on which this runs needs 100 us
    assert 1 < cost.ns < 100_000
    assert 0 < cost.under_1_us <= 1


def test_the_checks_work_on_this_machine() -> None:
    here = System()
    assert (here.cpus_allowed() or 0) >= 1
    times = cpu.cpu_times(here)
    assert times is not None
    assert times.total > 0
