"""Checks of processors, the clock, memory, other programs, limits and the generator's ceiling, on artificial trees."""

import os
from dataclasses import replace
from pathlib import Path

from pgdyno.doctor import Needs, Place, clock, cpu, generator, machine, memory, process_limits, round_trips, storage
from pgdyno.doctor.clock import ClockCost
from pgdyno.doctor.cpu import CpuTimes
from pgdyno.doctor.generator import Ceiling
from pgdyno.doctor.system import System, count_of_list
from pgdyno.messages import Message
from pgdyno.records import Check
from tests.unit.doctor_sample import CGROUP_1, CGROUP_2, meminfo, tree

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


def test_cores_and_quotas(tmp_path: Path) -> None:
    topology = {f"{FREQUENCY}/cpu0/topology/thread_siblings_list": "0,4"}
    check = cpu.cores(tree(tmp_path / "fine", STATUS | topology), LOCAL)
    assert (check.verdict, check.found) == ("good", "8 processors, 2 to a core")
    check = cpu.cores(tree(tmp_path / "nodes", STATUS | {"sys/devices/system/node/online": "0-1"}), LOCAL)
    assert (check.verdict, "numactl" in check.change) == ("note", True)
    few = tree(tmp_path / "few", {"proc/self/status": "Cpus_allowed_list: 1-2\n"})
    assert [cpu.cores(few, needs).verdict for needs in (LOCAL, REMOTE)] == ["note", "good"]
    for limits in (
        CGROUP_2 | {"sys/fs/cgroup/a/cpu.max": "250000 100000"},
        CGROUP_2 | {"sys/fs/cgroup/a/b/cpu.max": "max 100000", "sys/fs/cgroup/cpu.max": "250000 100000"},
        {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/unified/cpu.max": "250000 100000"},
        CGROUP_1 | {QUOTA: "250000", PERIOD: "100000"},
    ):
        check = cpu.cores(tree(tmp_path, STATUS | limits), REMOTE)
        assert (check.verdict, check.measured["limit_cores"]) == ("warning", 2.5)
        assert "cpuset" in check.change
    assert tree(tmp_path, CGROUP_1 | {QUOTA: "-1", PERIOD: "100000"}).cpu_limit() is None


def test_governors_and_turbo(tmp_path: Path) -> None:
    for governors, driver, verdict in (
        (("performance", "performance"), "acpi-cpufreq", "good"),
        (("performance", "powersave"), "acpi-cpufreq", "warning"),
        (("schedutil", "schedutil"), "acpi-cpufreq", "warning"),
        (("powersave", "powersave"), "intel_pstate", "note"),
        (("powersave", "powersave"), "intel_cpufreq", "warning"),
    ):
        files = {f"{FREQUENCY}/cpu{at}/cpufreq/scaling_governor": f"{name}\n" for at, name in enumerate(governors)}
        files |= {f"{FREQUENCY}/cpu{at}/cpufreq/scaling_driver": f"{driver}\n" for at in range(len(governors))}
        assert cpu.governor(tree(tmp_path, files)).verdict == verdict
    check = cpu.governor(tree(tmp_path, GUEST))
    assert (check.verdict, "hypervisor" in check.found) == ("unknown", True)
    for file, text, verdict in (
        ("intel_pstate/no_turbo", "0", "note"),
        ("intel_pstate/no_turbo", "1", "good"),
        ("cpufreq/boost", "1", "note"),
        ("cpufreq/boost", "0", "good"),
        ("elsewhere", "0", "unknown"),
    ):
        assert cpu.turbo(tree(tmp_path, {f"{FREQUENCY}/{file}": text})).verdict == verdict


def test_steal_is_a_share_of_the_times_of_the_processors(tmp_path: Path) -> None:
    system = tree(tmp_path, {"proc/stat": "cpu  1 2 4 8 16 32 64 128 5 5\ncpu0 9 9 9 9 9 9 9 9\n"})
    assert cpu.cpu_times(system) == CpuTimes(busy=1 + 2 + 4 + 32 + 64, idle=8 + 16, steal=128)
    assert cpu.cpu_times(tree(tmp_path, {"proc/stat": "cpu 1 2\n"})) is None
    system = tree(tmp_path / "guest", GUEST)
    for stolen, verdict in ((0, "good"), (4, "good"), (5, "note"), (20, "warning")):
        check = cpu.steal(system, CpuTimes(100, 100, 7), CpuTimes(600, 600 - stolen, 7 + stolen))
        assert (check.verdict, check.measured["steal_share"]) == (verdict, stolen / 1000)
    assert cpu.steal(tree(tmp_path / "metal", METAL), None, None).verdict == "good"


def test_sources_and_costs_of_the_clock(tmp_path: Path) -> None:
    for current, available, verdict in (
        ("tsc", "tsc hpet acpi_pm", "good"),
        ("kvm-clock", "kvm-clock tsc", "good"),
        ("xen", "xen tsc hpet", "note"),
        ("hpet", "hpet acpi_pm", "warning"),
        ("acpi_pm", "tsc acpi_pm", "warning"),
        ("arch_sys_counter", "arch_sys_counter", "good"),
    ):
        files = {f"{clock.FOLDER}/current_clocksource": current, f"{clock.FOLDER}/available_clocksource": available}
        check = clock.source(tree(tmp_path, files))
        assert check.verdict == verdict
        assert check.found.startswith(f"{current}; available: ")
    for ns, share, verdict in (
        (25, 0.999, "good"),
        (99, 0.9, "good"),
        (100, 0.99, "note"),
        (300, 0.99, "warning"),
        (25, 0.89, "warning"),
    ):
        check = clock.cost(ClockCost(ns, share))
        assert (check.verdict, check.measured) == (verdict, {"call_ns": ns, "under_1_us_share": share})


def test_the_checks_work_on_this_machine() -> None:
    here = System()
    assert (here.cpus_allowed() or 0) >= 1
    times, cost = cpu.cpu_times(here), clock.measure_cost()
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


def test_load_and_other_programs(tmp_path: Path) -> None:
    system = tree(tmp_path, {"proc/loadavg": "0.52 0.41 0.30 1/200 4711\n"})
    for busy, verdict in ((0, "good"), (29, "good"), (30, "note"), (100, "warning")):
        check = machine.load(system, CpuTimes(50, 50, 0), CpuTimes(50 + busy, 1050 - busy, 0))
        assert (check.verdict, check.measured) == (verdict, {"busy_share": busy / 1000, "load_1_min": 0.52})
    for files, verdict, found in (
        (stat(12, "postgresql-exporter", 1), "good", "nothing"),
        ({"proc/20/stat": "20 (postgres) Z 1 0 0"}, "good", "nothing"),
        # a server with its processes is one
        (SERVER | stat(21, "postgres", 20) | stat(22, "postgres", 20), "note", "1 postgres"),
        # another run is worse than a server
        (SERVER | ANOTHER, "warning", "1 pgbench, 1 pgdyno, 1 postgres"),
    ):
        check = machine.other_processes(tree(tmp_path, OWN | files), 11)
        assert check.verdict == verdict
        assert found in ("nothing", check.found)


def open_files(soft: str, hard: str) -> dict[str, str]:
    head = "Limit                     Soft Limit           Hard Limit           Units     \n"
    return {"proc/self/limits": f"{head}{'Max open files':26}{soft:21}{hard:21}files     \n"}


def test_limits_of_files_and_processes(tmp_path: Path) -> None:
    for hard, clients, verdict in (
        ("4096", 100, "good"),
        ("4096", 4000, "good"),
        ("4096", 4096, "stop"),
        ("unlimited", 100_000, "good"),
    ):
        check = process_limits.open_files(tree(tmp_path, open_files("1024", hard)), Needs(clients=clients))
        assert check.verdict == verdict
    system = tree(tmp_path, open_files("1024", "9000") | CGROUP_2 | {"sys/fs/cgroup/a/b/pids.max": "150"})
    # a server elsewhere has its processes elsewhere
    for servers, clients, verdict in ((1, 50, "good"), (1, 100, "stop"), (0, 100, "good")):
        assert process_limits.open_files(system, Needs(plan="p", servers=servers, clients=clients)).verdict == verdict


# ---- the generator ----


def test_ceiling_and_round_trip() -> None:
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
    for median, verdict in ((12, "good"), (250, "note"), (1_500, "warning")):
        check = round_trips.round_trip(Needs(statements=7), median, Message("path", "to pgnull"))
        assert check.verdict == verdict
        assert f"7 statements takes at least {7 * median:.3g} µs" in check.means


def test_what_the_kernel_does_not_tell_is_unknown(tmp_path: Path) -> None:
    system, place = System(tmp_path), Place(Path("/data"), ("data of a",))
    sets = Needs(plan="p", servers=1, shared_buffers=(1 << 30,), datasets=(1 << 30,))
    checks = [
        cpu.cores(system, sets), cpu.steal(system, None, None), clock.source(system), memory.swap(system),
        memory.size(system, sets), memory.dataset(system, sets), memory.transparent(system),
        memory.huge_pages(system, sets), machine.load(system, None, None), machine.other_processes(system, 11),
        process_limits.open_files(system, sets), storage.file_system(system, place),
        storage.mount_options(system, place),
    ]  # fmt: skip
    assert {check.id: check.verdict for check in checks if check.verdict != "unknown"} == {}


# ---- memory ----

GIB = 1 << 30
SIXTEEN = 16 << 20
"""kB"""


def needs(
    shared: int = GIB, clients: int = 16, datasets: tuple[int, ...] = (), huge_pages: str = "try", servers: int = 1
) -> Needs:
    sizes = (shared,) * servers
    return Needs("p", clients, servers=servers, shared_buffers=sizes, datasets=datasets, huge_pages=huge_pages)


def test_size_of_memory_and_its_limits(tmp_path: Path) -> None:
    for asked, verdict in (
        (needs(), "good"),
        (needs(15 * GIB), "warning"),
        (needs(clients=2000), "warning"),
        (needs(17 * GIB), "stop"),
        (needs(9 * GIB, servers=2), "stop"),
    ):
        check = memory.size(tree(tmp_path, meminfo(MemTotal=SIXTEEN)), asked)
        assert (check.verdict, check.measured["available_bytes"]) == (verdict, 16 * GIB)
    system = tree(tmp_path, meminfo(MemTotal=SIXTEEN))
    for in_memory, verdict in ((True, "stop"), (False, "good")):
        place = Place(Path("/dev/shm"), ("data of a",), bytes=16 * GIB, in_memory=in_memory)
        assert memory.size(system, replace(needs(), places=(place,))).verdict == verdict
    for limit in (
        CGROUP_2 | {"sys/fs/cgroup/a/b/memory.max": "max", "sys/fs/cgroup/a/memory.max": str(4 * GIB)},
        CGROUP_1 | {"sys/fs/cgroup/memory/x/memory.limit_in_bytes": str(4 * GIB)},
    ):
        system = tree(tmp_path, meminfo(MemTotal=SIXTEEN) | limit)
        assert [memory.size(system, each).verdict for each in (needs(), needs(5 * GIB))] == ["note", "stop"]
        # no limit of version 1 is a large number
        unlimited = {"sys/fs/cgroup/memory/x/memory.limit_in_bytes": str(2**63 - 4096)}
        assert tree(tmp_path, CGROUP_1 | unlimited).memory_limit_bytes() is None


def test_dataset(tmp_path: Path) -> None:
    for datasets, verdict, found in (
        ((GIB // 2,), "good", "in shared buffers"),
        ((4 * GIB,), "good", "in memory, beyond shared buffers"),
        ((14 * GIB,), "warning", "about as large as memory"),
        ((40 * GIB,), "note", "larger than memory"),
        ((GIB // 2, 40 * GIB), "note", "in shared buffers and larger than memory"),
        ((), "unknown", "its size is unknown"),
    ):
        system = tree(tmp_path, meminfo(MemTotal=SIXTEEN))
        check = memory.dataset(system, needs(datasets=datasets))
        assert check.verdict == verdict
        assert found in check.found
        # those of several servers share memory
        for servers, shared in ((1, "good"), (2, "warning")):
            assert memory.dataset(system, needs(datasets=(6 * GIB,), servers=servers)).verdict == shared


def test_swap(tmp_path: Path) -> None:
    for total, free, swappiness, verdict in (
        (0, 0, 60, "good"),
        (1000, 1000, 1, "good"),
        (1000, 1000, 60, "note"),
        (SIXTEEN, SIXTEEN // 2, 1, "warning"),
    ):
        files = meminfo(MemTotal=SIXTEEN, SwapTotal=total, SwapFree=free)
        system = tree(tmp_path, files | {"proc/sys/vm/swappiness": f"{swappiness}\n"})
        assert memory.swap(system).verdict == verdict


def test_huge_pages(tmp_path: Path) -> None:
    for free, needed, verdict in (
        (0, needs(GIB // 8), "good"),
        (0, needs(4 * GIB, clients=100), "note"),
        (0, needs(4 * GIB, clients=400), "warning"),
        (4000, needs(4 * GIB, clients=400), "good"),
        (4000, needs(4 * GIB, clients=400, huge_pages="off"), "warning"),
        (2000, needs(4 * GIB, huge_pages="on"), "stop"),
        (4000, needs(4 * GIB, huge_pages="on"), "good"),
    ):
        files = meminfo(
            MemTotal=SIXTEEN, HugePages_Total=free, HugePages_Free=free, HugePages_Rsvd=0, Hugepagesize=2048
        )
        check = memory.huge_pages(tree(tmp_path, files), needed)
        assert check.verdict == verdict
        assert verdict != "stop" or "vm.nr_hugepages=2253" in check.change

    def check_pages(more: dict[str, str], **pages: int) -> Check:
        values = {"MemTotal": SIXTEEN, "Hugepagesize": 2048, **{f"HugePages_{name}": n for name, n in pages.items()}}
        return memory.huge_pages(tree(tmp_path, meminfo(**values) | more), needs(GIB // 8, huge_pages="on"))

    # 990 are in use or promised, and 1.1 times 128 MiB are 71
    assert check_pages({}, Total=1000, Free=50, Rsvd=40).change.startswith("sysctl vm.nr_hugepages=1061 ")
    # those that the kernel has added
    added = {"proc/sys/vm/nr_overcommit_hugepages": "100\n"}
    assert check_pages(added, Total=100, Free=0, Surp=100).verdict == "stop"
    for enabled, defrag, verdict in (
        ("always [madvise] never", "always [madvise] never", "good"),
        ("always madvise [never]", "[always] madvise", "good"),
        ("[always] madvise never", "always [madvise] never", "note"),
        ("[always] madvise never", "[always] madvise never", "warning"),
    ):
        system = tree(tmp_path, {f"{memory.THP}/enabled": enabled, f"{memory.THP}/defrag": defrag})
        assert memory.transparent(system).verdict == verdict
