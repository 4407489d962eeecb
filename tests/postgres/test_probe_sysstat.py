"""pgprobe's figures compared with those of iostat and pidstat (Debian's sysstat) in the same seconds.

The programs sample at different moments. So the figures of sysstat must lie between those of pgprobe in the samples
that are entirely within their time, and those in all samples that overlap it. This holds for any load.
"""

import json
import os
import subprocess
import threading
import time
from datetime import datetime
from pathlib import Path

from pgdyno.targets import Server
from tests.postgres.probe_process import Line, Probe, probing

Times = tuple[float, float]
SECONDS = 5


def within(probe: Probe, source: str, metric: str, began: float, ended: float, **labels: str) -> tuple[float, float]:
    """Returns the bounds of a metric of rows with these labels, by `Probe.within`."""

    def amount(line: Line) -> float:
        rows = [row for row in line["rows"] if labels.items() <= row.get("labels", {}).items()]
        return float(sum(row["values"].get(metric, 0.0) for row in rows))

    return probe.within(source, began, ended, amount)


def reported(*command: str) -> tuple[str, float, float]:
    began = time.time()
    environment = {**os.environ, "LC_ALL": "C", "S_TIME_FORMAT": "ISO"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, timeout=60)
    return done.stdout, began, time.time()


def assert_between(
    probe: Probe, theirs: float, source: str, metric: str, times: Times, looked: Times, **labels: str
) -> None:
    """`times` are the start and end of the other program, `looked` the times of its second and last sample."""
    low, _ = within(probe, source, metric, looked[0], looked[1], **labels)
    _, high = within(probe, source, metric, times[0], times[1], **labels)
    # its seconds are longer on a busy machine
    longest = times[1] - times[0] - (SECONDS - 1)
    assert low > 0, (source, metric)
    assert 0.95 * low <= theirs * longest, (source, metric, low, theirs, longest)
    assert theirs <= 1.05 * high, (source, metric, theirs, high)


def test_a_backend_s_cpu_and_writes_are_pidstat_s(server: Server) -> None:
    stop = threading.Event()

    def insert() -> None:
        while not stop.is_set():
            busy.execute("INSERT INTO watched SELECT i, repeat('x', 500) FROM generate_series(1, 5000) i")
            # the cores are for others, too
            stop.wait(0.1)

    with server.connect() as busy, probing(server.environment(), [f"--data={server.data_directory}"]) as probe:
        busy.execute("CREATE TABLE watched (id int, filler text)")
        pid = str(busy.info.backend_pid)
        load = threading.Thread(target=insert)
        load.start()
        try:
            probe.wait_for("sample", "process", 3)
            text, *times = reported("pidstat", "-h", "-H", "-u", "-d", "-p", pid, "1", str(SECONDS))
            probe.wait_for("sample", "process", len(probe.of("sample", "process")) + 2)
        finally:
            stop.set()
            load.join()
            busy.execute("DROP TABLE watched")
    lines = [line.split() for line in text.splitlines() if line.strip()]
    names = next(line for line in lines if line[0] == "#")[1:]
    rows = [dict(zip(names, line, strict=False)) for line in lines if line[0].isdigit()]
    assert len(rows) == SECONDS, text
    # whole seconds, cut off
    looked = (float(rows[0]["Time"]) + 1, float(rows[-1]["Time"]))
    cpu_us = sum(float(row["%CPU"]) / 100 * 1e6 for row in rows)
    written = sum(float(row["kB_wr/s"]) * 1024 for row in rows)
    began, ended = times
    assert_between(probe, cpu_us, "process", "cpu", (began, ended), looked, pid=pid)
    assert_between(probe, written, "process", "written", (began, ended), looked, pid=pid)
    (user,) = {
        row["labels"]["kind"]
        for line in probe.of("sample", "process")
        for row in line["rows"]
        if row["labels"]["pid"] == pid
    }
    assert user == "client backend"


def test_a_disk_s_reads_and_writes_are_iostat_s(scratch: Path) -> None:
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            with (scratch / "written").open("wb") as file:
                file.write(os.urandom(1 << 20))
                file.flush()
                os.fsync(file.fileno())

    with probing(options=["--no-server", f"--data={scratch}", f"--wal={scratch}", "--no-log"]) as probe:
        probe.wait_for("sample", "disk", 2)
        holding = [row["labels"] for row in probe.of("sample", "disk")[0]["rows"] if "holds" in row["labels"]]
        device = holding[0]["device"]
        load = threading.Thread(target=write)
        load.start()
        try:
            text, *times = reported("iostat", "-d", "-k", "-y", "-t", "-o", "JSON", device, "1", str(SECONDS))
            probe.wait_for("sample", "disk", len(probe.of("sample", "disk")) + 2)
        finally:
            stop.set()
            load.join()
    reports = json.loads(text)["sysstat"]["hosts"][0]["statistics"]
    assert len(reports) == SECONDS
    # whole seconds, cut off
    first, last = (datetime.fromisoformat(reports[place]["timestamp"]).timestamp() for place in (0, -1))
    written = sum(report["disk"][0]["kB_wrtn"] * 1024 for report in reports)
    began, ended = times
    assert_between(probe, written, "disk", "written", (began, ended), (first + 1, last), device=device)
