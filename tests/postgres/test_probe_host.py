"""pgprobe's figures of the host compared with other interfaces of the kernel in the same seconds."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from tests.postgres.probe_process import Line, probing

SECONDS = 5
ROUNDED_S = 0.05
"""vmstat rounds each of its seconds to whole percents, and takes the last one for the rest."""


def vmstat(seconds: int) -> list[tuple[float, dict[str, float]]]:
    """vmstat's lines: when each was read, and its columns; of the time since the boot, then of each second."""
    command = ["vmstat", "-n", "1", str(seconds + 1)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        next(process.stdout)
        names = next(process.stdout).split()
        return [(time.time(), dict(zip(names, map(float, line.split()), strict=True))) for line in process.stdout]


def diskstats() -> dict[str, list[int]]:
    lines = Path("/proc/diskstats").read_text().splitlines()
    return {line.split()[2]: [int(word) for word in line.split()[3:]] for line in lines}


def test_cpu_and_switches_are_vmstat_s() -> None:
    """Compares as test_probe_sysstat.py does, whatever else runs on the machine and delays a program.

    A line of vmstat is read after its look, and that of a second before the next look: what our samples between
    two lines gained lies within vmstat's time, and vmstat's time within ours.
    """
    with probing(options=["--no-server"]) as probe:
        probe.wait_for("sample", "cpu", 2)
        began = time.time()
        (first_at, _), *lines = vmstat(SECONDS)
        ended = time.time()
        probe.wait_past(ended, "cpu", "kernel")
    seen = [line for _, line in lines]
    looked = (first_at, lines[-2][0])
    # its seconds are longer on a busy machine
    longest = ended - began - (SECONDS - 1)
    for metrics, columns in ((("user",), ("us",)), (("system", "irq"), ("sy",)), (("idle",), ("id",))):
        theirs = sum(line[column] for line in seen for column in columns) / 100
        low, _ = probe.within("cpu", *looked, partial(cpu_seconds, metrics))
        _, high = probe.within("cpu", began, ended, partial(cpu_seconds, metrics))
        assert theirs <= high + ROUNDED_S, (metrics, probe.rows("cpu"), seen)
        assert low <= theirs * longest + ROUNDED_S, (metrics, probe.rows("cpu"), seen)
    low, _ = probe.within("kernel", *looked, switches)
    _, high = probe.within("kernel", began, ended, switches)
    assert 0 < 0.95 * low <= sum(line["cs"] for line in seen) <= 1.05 * high


def test_shares_of_the_cpu_are_of_all_the_time_there_was() -> None:
    """Shares times lengths of samples lie between the kernel's counts within the samples and around them."""
    outer, outer_began = cpu_time_s(), time.monotonic()
    with probing(options=["--no-server"]) as probe:
        probe.wait_for("sample", "cpu", 1)
        inner, inner_began = cpu_time_s(), time.monotonic()
        probe.wait_for("sample", "cpu", 3)
        inner_s, inner_length_s = cpu_time_s() - inner, time.monotonic() - inner_began
        probe.wait_past(time.time(), "cpu")
    outer_s, outer_length_s = cpu_time_s() - outer, time.monotonic() - outer_began
    samples = probe.of("sample", "cpu")
    modes = list(samples[-1]["rows"][0]["values"])
    shares_s = sum(cpu_seconds(modes, line) for line in samples)
    assert inner_s - ROUNDED_S <= shares_s <= outer_s + ROUNDED_S
    assert inner_length_s <= sum(line["span_us"] or 0 for line in samples) / 1e6 <= outer_length_s


def cpu_time_s() -> float:
    """Returns the kernel's counts since the boot in all modes, per core."""
    ticks, *cores = (
        # guests are in user and nice, too
        [int(word) for word in line.split()[1:9]]
        for line in Path("/proc/stat").read_text().splitlines()
        if line.startswith("cpu")
    )
    return sum(ticks) / os.sysconf("SC_CLK_TCK") / len(cores)


def cpu_seconds(metrics: Sequence[str], line: Line) -> float:
    (row,) = line["rows"]
    share: float = sum(row["values"].get(metric, 0.0) for metric in metrics)
    return share * (line["span_us"] or 0) / 1e6


def switches(line: Line) -> float:
    (row,) = line["rows"]
    return float(row["values"].get("context_switches", 0.0))


def test_counters_add_up_to_the_kernel_s_own() -> None:
    """The sum of all samples lies between the increase of /proc within them and around them."""
    outer = [diskstats(), stat("ctxt"), stat("processes")]
    with probing(options=["--no-server"]) as probe:
        probe.wait_for("sample", "disk", 1)
        inner = [diskstats(), stat("ctxt"), stat("processes")]
        written = write_and_sync(32 << 20)
        inner_end = [diskstats(), stat("ctxt"), stat("processes")]
        probe.wait_past(time.time(), "disk", "kernel")
    outer_end = [diskstats(), stat("ctxt"), stat("processes")]
    devices = {row["labels"]["device"] for line in probe.of("sample", "disk") for row in line["rows"]}
    assert devices
    most = 0.0
    for device in devices:
        for metric, word, unit in (("reads", 0, 1), ("read", 2, 512), ("writes", 4, 1), ("written", 6, 512)):
            ours = probe.total("disk", metric, device=device)
            low = (inner_end[0][device][word] - inner[0][device][word]) * unit  # type: ignore[index]
            high = (outer_end[0][device][word] - outer[0][device][word]) * unit  # type: ignore[index]
            assert low <= ours <= high, (device, metric)
            most = max(most, ours if metric == "written" else 0)
    assert most >= written
    for place, metric in ((1, "context_switches"), (2, "forks")):
        ours = probe.total("kernel", metric)
        assert inner_end[place] - inner[place] <= ours <= outer_end[place] - outer[place]  # type: ignore[operator]


def stat(name: str) -> int:
    found = re.search(rf"^{name} (\d+)", Path("/proc/stat").read_text(), re.MULTILINE)
    assert found
    return int(found[1])


def write_and_sync(size: int) -> int:
    path = Path.cwd() / ".written-by-a-test"
    with path.open("wb") as file:
        file.write(os.urandom(size))
        file.flush()
        os.fsync(file.fileno())
    path.unlink()
    return size


def test_a_process_is_found_by_its_parent_with_what_it_uses() -> None:
    """A child with a title of PostgreSQL's burns CPU: the samples of its seconds say as much as it says itself."""
    child = (
        "import os,sys,time\n"
        "end=time.time()+1.5\n"
        "while time.time()<end: pass\n"
        "print(time.process_time(), flush=True); sys.stdin.read()"
    )
    # exec -a gives it a title, as a backend gives itself one
    command = ["bash", "-c", f"exec -a 'postgres: ann shop [local] SELECT' {sys.executable} -c \"$0\"", child]
    with probing(options=["--no-server", f"--postmaster={os.getpid()}"]) as probe:
        probe.wait_for("sample", "cpu", 2)
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            used = float(process.stdout.readline())
            probe.wait_past(time.time(), "process", "processes")
            seen = probe.total("process", "cpu", user="ann", database="shop", client="[local]") / 1e6
            process.communicate()
    assert abs(seen - used) < 0.1 * used + 0.1, (seen, used)
    by_kind = probe.total("processes", "cpu", kind="client backend") / 1e6
    assert abs(by_kind - used) < 0.1 * used + 0.1


def test_memory_is_the_kernel_s() -> None:
    with probing(options=["--no-server"]) as probe:
        probe.wait_for("sample", "memory", 2)
    meminfo = dict(re.findall(r"^(\w+):\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE))
    values = probe.rows("memory")[-1][1]
    assert values["total"] == int(meminfo["MemTotal"]) * 1024
    assert abs(values["cached"] - int(meminfo["Cached"]) * 1024) < 2 << 30
    assert abs(values["shared"] - int(meminfo["Shmem"]) * 1024) < 1 << 30


def test_the_disk_of_the_data_is_named(scratch: Path) -> None:
    with probing(options=["--no-server", f"--data={scratch}", f"--wal={scratch}"]) as probe:
        probe.wait_for("sample", "disk", 2)
    device = scratch.stat().st_dev
    numbers = f"{os.major(device)} {os.minor(device)} "
    lines = [" ".join(line.split()) for line in Path("/proc/diskstats").read_text().splitlines()]
    names = [line.split()[2] for line in lines if line.startswith(numbers)]
    holding = {
        row["labels"]["device"]
        for line in probe.of("sample", "disk")
        for row in line["rows"]
        if row["labels"].get("holds") == "data wal"
    }
    assert holding == set(names)
    # its server does not run, which is reported once
    assert [line["source"] for line in probe.of("warning")] == ["process"]
