"""pgprobe's figures of the host compared with the kernel's own in the same seconds."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.postgres.probe_process import probing

MODES = {
    "user": ("user", "nice"),
    "system": ("system",),
    "irq": ("irq", "softirq"),
    "idle": ("idle",),
    "iowait": ("iowait",),
    "steal": ("steal",),
}
"""The kernel's modes of a processor (proc(5)) that each of ours sums up; guests are in theirs, not in ours."""
ROUNDED_S = 0.05
"""The kernel counts in ticks."""
Counts = dict[tuple[str, str, str], float]


def counts() -> Counts:
    """Returns what the kernel has counted since the boot in the probe's units: by source, metric and device."""
    text = Path("/proc/stat").read_text()
    cores = len(re.findall(r"^cpu\d", text, re.MULTILINE))
    names = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
    ticks = dict(zip(names, text.split("\n", 1)[0].split()[1:], strict=False))
    per_s = os.sysconf("SC_CLK_TCK") * cores
    found = {("cpu", ours, ""): sum(int(ticks[each]) for each in modes) / per_s for ours, modes in MODES.items()}
    for metric, name in (("context_switches", "ctxt"), ("forks", "processes")):
        found["kernel", metric, ""] = float(re.findall(rf"^{name} (\d+)", text, re.MULTILINE)[0])
    for line in Path("/proc/diskstats").read_text().splitlines():
        _, _, device, *words = line.split()
        for metric, word, unit in (("reads", 0, 1), ("read", 2, 512), ("writes", 4, 1), ("written", 6, 512)):
            found["disk", metric, device] = float(words[word]) * unit
    return found


def test_figures_of_the_host_are_the_kernel_s_own(scratch: Path) -> None:
    """The sum of all samples lies between the increase of the kernel's counts within them and around them."""
    outer, outer_began = counts(), time.monotonic()
    with probing(options=["--no-server", f"--data={scratch}", f"--wal={scratch}"]) as probe:
        for source in ("cpu", "disk", "kernel", "memory"):
            probe.wait_for("sample", source, 1)
        inner, inner_began = counts(), time.monotonic()
        content = os.urandom(32 << 20)
        with (scratch / "written").open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        inner_end, inner_s = counts(), time.monotonic() - inner_began
        probe.wait_past(time.time(), "cpu", "disk", "kernel")
    outer_end, outer_s = counts(), time.monotonic() - outer_began
    assert inner_s <= sum(line["span_us"] or 0 for line in probe.of("sample", "cpu")) / 1e6 <= outer_s
    devices = {row["labels"]["device"] for line in probe.of("sample", "disk") for row in line["rows"]}
    for key in outer_end:
        source, metric, device = key
        if source == "disk" and device not in devices:
            continue
        if source == "cpu":
            lines = [(line["span_us"] or 0, line["rows"][0]["values"]) for line in probe.of("sample", source)]
            ours, rounded = sum(span_us * values.get(metric, 0.0) for span_us, values in lines) / 1e6, ROUNDED_S
        else:
            ours, rounded = probe.total(source, metric, **({"device": device} if device else {})), 0.0
        low, high = inner_end.get(key, 0) - inner.get(key, 0), outer_end[key] - outer.get(key, 0)
        assert low - rounded <= ours <= high + rounded, key
    assert max(probe.total("disk", "written", device=device) for device in devices) >= len(content)
    meminfo = dict(re.findall(r"^(\w+):\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE))
    memory = probe.rows("memory")[-1][1]
    assert memory["total"] == int(meminfo["MemTotal"]) * 1024
    assert abs(memory["cached"] - int(meminfo["Cached"]) * 1024) < 2 << 30
    assert abs(memory["shared"] - int(meminfo["Shmem"]) * 1024) < 1 << 30
    # the disk of the data is named
    device_of_data = scratch.stat().st_dev
    numbers = [str(os.major(device_of_data)), str(os.minor(device_of_data))]
    lines_of_disks = [line.split() for line in Path("/proc/diskstats").read_text().splitlines()]
    rows = [row["labels"] for line in probe.of("sample", "disk") for row in line["rows"]]
    holding = {labels["device"] for labels in rows if labels.get("holds") == "data wal"}
    assert holding == {words[2] for words in lines_of_disks if words[:2] == numbers}
    # its server does not run, which is reported once
    assert [line["source"] for line in probe.of("warning")] == ["process"]


CHILD = """\
import os, sys, time
with open(sys.argv[1], "wb") as file:
    file.write(bytes(8 << 20))
    os.fsync(file.fileno())
end = time.time() + 1
while time.time() < end:
    pass
io = dict(line.split(": ") for line in open("/proc/self/io").read().splitlines())
print(time.process_time(), io["write_bytes"], io["wchar"], flush=True)
sys.stdin.read()
"""


def test_a_process_is_found_by_its_parent_with_what_it_uses(scratch: Path) -> None:
    """A child with a title of PostgreSQL's works: the samples of its seconds say as much as it says itself."""
    # exec -a gives it a title, as a backend gives itself one
    started = f'exec -a "postgres: ann shop [local] SELECT" {sys.executable} -c "$0" {scratch}/written'
    with probing(options=["--no-server", f"--postmaster={os.getpid()}"]) as probe:
        probe.wait_for("sample", "cpu", 2)
        command = ["bash", "-c", started, CHILD]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            cpu_s, written, written_calls = map(float, process.stdout.readline().split())
            probe.wait_past(time.time(), "process", "processes")
            backend = {"user": "ann", "database": "shop", "client": "[local]", "kind": "client backend"}
            ours = {metric: probe.total("process", metric, **backend) for metric in ("cpu", "written", "written_calls")}
            process.communicate()
    assert ours["cpu"] / 1e6 == pytest.approx(cpu_s, rel=0.1, abs=0.1)
    assert probe.total("processes", "cpu", kind="client backend") / 1e6 == pytest.approx(cpu_s, rel=0.1, abs=0.1)
    assert written >= 8 << 20
    assert (ours["written"], ours["written_calls"]) == pytest.approx((written, written_calls), rel=0.01)
