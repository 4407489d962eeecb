"""What the probe costs: throughput with and without it in A B B A pairs, its CPU, its server time, its bytes on disk.

Both arms load one embedded server with the same pgdrive; in one of them pgprobe runs beside it at its defaults.
A pair is judged as `pgdyno compare` does it, with delta = 1 %. Behind the pairs, one longer load with the probe
gives its own cost. Take figures on an idle machine.
"""

import argparse
import json
import os
import re
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypedDict

from measured import process_cpu_s, run_measured

from pgdyno.analyse.comparison import Comparison, Verdict, compare
from pgdyno.analyse.pairs import Arms, Metric, PointPairs
from pgdyno.host import describe_host
from pgdyno.messages import Message
from pgdyno.plan.optional_sections import ProbeSpec
from pgdyno.probe import LocalProbe
from pgdyno.programs import find_engine
from pgdyno.records import PlacedLines, Point
from pgdyno.report.answers.comparison import comparison_lines
from pgdyno.report.sections.figures.comparison import compared_table
from pgdyno.report.terminal.block_lines import block_lines
from pgdyno.report.terminal.summary_file import Layout
from pgdyno.store.probe_tables import write_probed
from pgdyno.targets import Home, Server, SilentProgress, open_target
from pgdyno.targets.embedded.schema import EmbeddedTarget

RESULT = Path(__file__).parent / "results" / "probe.json"
VERSION = "18"
WORKLOADS = ("select-only", "tpcb-like")
WARMUP_S = 2
SETTINGS = {
    "shared_buffers": "512MB",
    # neither fsync nor a checkpoint of its own: their noise would hide a percent
    "synchronous_commit": "off",
    "max_wal_size": "16GB",
    "checkpoint_timeout": "1h",
    "autovacuum": "off",
}

CPU_GOAL = 0.01
"""Of one core."""
BYTES_GOAL = 100
"""A sample, on disk."""


class Own(TypedDict):
    """What the probe says of itself over one load, and what is left of its lines on disk."""

    seconds: float
    core_share: float
    server_ms_per_s: float
    """From sending statements to having their answers: no less than what they cost the server."""
    backend_core_share: float
    """Processor time of its server processes, of one core."""
    share_of_host: float
    """Its own and its server processes', of all cores: what a load that needs them all can lose to it."""
    queries_per_s: float
    resident_bytes: float
    late: float
    samples: int
    """Lines of samples and looks."""
    figures: int
    """Rows of the two tables."""
    line_bytes: int
    disk_bytes: int
    bytes_a_sample: float
    megabytes_an_hour: float


class BackendCpu(threading.Thread):
    """Follows the processor time of the probe's server processes until it is ended."""

    def __init__(self, server: Server) -> None:
        """Nothing is read before it is started."""
        super().__init__(daemon=True)
        self._server, self._ended = server, threading.Event()
        self._first: dict[int, tuple[float, float]] = {}
        self._last: dict[int, tuple[float, float]] = {}

    def run(self) -> None:
        """Once a second; a look costs less than a millisecond."""
        with self._server.connect() as connection:
            while not self._ended.wait(1):
                found = connection.execute("SELECT pid FROM pg_stat_activity WHERE application_name = 'pgprobe'")
                for (pid,) in found.fetchall():
                    # it may have ended since it was listed
                    with suppress(FileNotFoundError):
                        seen = (time.monotonic(), process_cpu_s(pid))
                        self._first.setdefault(pid, seen)
                        self._last[pid] = seen

    def end(self) -> float:
        """Its share of one core, over the time that each process was seen."""
        self._ended.set()
        self.join()
        spans = [(last[0] - self._first[pid][0], last[1] - self._first[pid][1]) for pid, last in self._last.items()]
        return sum(cpu / seconds for seconds, cpu in spans if seconds > 0)


class Load:
    """One server and the load that it gets."""

    def __init__(self, server: Server, folder: Path, args: argparse.Namespace) -> None:
        """Everything that is written goes into `folder`."""
        self._server, self._folder, self._args = server, folder, args
        self._engine = str(find_engine().path)
        self._environment = server.environment()

    def dataset(self) -> None:
        """Makes pgbench's tables."""
        command = [self._engine, "-i", "-q", f"--scale={self._args.scale}"]
        run_measured(command, {**os.environ, **self._environment})

    def tps(self, workload: str, seconds: int, lines: Path | None) -> float:
        """Transactions a second of one load; with the probe beside it when its `lines` have a file."""
        with self._server.connect() as connection:
            connection.execute("VACUUM pgbench_tellers, pgbench_branches")
            connection.execute("CHECKPOINT")
        spec = ProbeSpec(enabled=lines is not None)
        log = self._folder / "probe.log"
        assert self._server.machine is not None
        where = lines or self._folder / "none"
        with LocalProbe(spec, self._environment, self._server.machine.data_directory, where, log) as probe:
            text = run_measured(self._command(workload, seconds), self._environment).out
        if probe.problem is not None:
            sys.exit(probe.problem)
        found = re.search(r"tps = ([\d.]+)", text)
        if found is None:
            sys.exit(f"pgdrive says no tps:\n{text}")
        return float(found[1])

    def _command(self, workload: str, seconds: int) -> list[str]:
        fixed = [self._engine, "--no-vacuum", "--protocol=prepared", "--jobs=1", f"--warmup={WARMUP_S}"]
        return [*fixed, f"--client={self._args.clients}", f"--builtin={workload}", f"--time={seconds}"]


def pairs(load: Load, workload: str, folder: Path, args: argparse.Namespace) -> PointPairs:
    """Throughput by repeat, A B B A."""
    found: dict[str, dict[int, float]] = defaultdict(dict)
    for repeat in range(1, args.pairs + 1):
        order = ("without", "with") if repeat % 2 else ("with", "without")
        for arm in order:
            lines = folder / "pair.jsonl" if arm == "with" else None
            found[arm][repeat] = load.tps(workload, args.seconds, lines)
        print(f"  pair {repeat}: {found['without'][repeat]:,.0f} / {found['with'][repeat]:,.0f} tps", flush=True)
    label = Message("workload", "{workload}", workload=workload)
    return PointPairs(label, Point(clients=args.clients), found["without"], found["with"])


def own(lines: Path, folder: Path, backend_core_share: float) -> Own:
    """The probe's cost by its lines, from its first sample of itself to the last."""
    parsed = [json.loads(line) for line in lines.read_text().splitlines()]
    mine = [line for line in parsed if line.get("source") == "probe" and line["event"] == "sample"]
    seconds = (mine[-1]["t_us"] - mine[0]["t_us"]) / 1e6
    values = [line["rows"][0]["values"] for line in mine[1:]]
    samples = sum(line["event"] in ("sample", "waits") for line in parsed)
    write_probed(folder, 1, [PlacedLines(lines, 0)])
    disk = sum((folder / f"{table}.parquet").stat().st_size for table in ("series", "waits"))
    core_share = total(values, "cpu") / 1e6 / seconds
    return Own(
        seconds=round(seconds, 3),
        core_share=round(core_share, 5),
        backend_core_share=round(backend_core_share, 5),
        share_of_host=round((core_share + backend_core_share) / (os.cpu_count() or 1), 5),
        server_ms_per_s=round(total(values, "query_time") / 1e3 / seconds, 3),
        queries_per_s=round(total(values, "queries") / seconds, 1),
        resident_bytes=max(each["resident"] for each in values),
        late=total(values, "late"),
        samples=samples,
        figures=sum(figures_of(line) for line in parsed),
        line_bytes=lines.stat().st_size,
        disk_bytes=disk,
        bytes_a_sample=round(disk / samples, 1),
        megabytes_an_hour=round(disk / seconds * 3600 / 1e6, 2),
    )


def total(values: list[dict[str, float]], metric: str) -> float:
    """The sum of an amount."""
    return sum(each.get(metric, 0.0) for each in values)


def figures_of(line: Mapping[str, Any]) -> int:
    """How many rows of a table a line becomes."""
    if line["event"] == "waits":
        return max(1, len(line["rows"]))
    return sum(len(row["values"]) for row in line["rows"]) if line["event"] == "sample" else 0


def show(comparison: Comparison, cost: Own) -> list[tuple[str, bool]]:
    """Prints everything; each goal in words, and whether it is reached."""
    print()
    table = block_lines([compared_table(comparison, plots=True)], Layout(110))
    print("\n".join([*comparison_lines(comparison), *(line.plain for line in table)]))
    print(
        f"\nthe probe itself, over {cost['seconds']:.0f} s of {WORKLOADS[-1]}:"
        f"\n  CPU                {100 * cost['core_share']:.2f} % of one core"
        f"\n  CPU of its backend {100 * cost['backend_core_share']:.2f} % of one core;"
        f" of all cores, both {100 * cost['share_of_host']:.2f} %"
        f"\n  server time        {cost['server_ms_per_s']:.1f} ms a second, {cost['queries_per_s']:.0f} statements"
        f"\n  memory             {cost['resident_bytes'] / 1e6:.1f} MB; {cost['late']:.0f} samples left out"
        f"\n  lines              {cost['samples']:,} samples and looks, {cost['line_bytes'] / 1e6:.2f} MB"
        f"\n  on disk            {cost['bytes_a_sample']:.1f} bytes a sample, {cost['figures']:,} figures in"
        f" {cost['disk_bytes'] / 1e3:.0f} kB, {cost['megabytes_an_hour']:.1f} MB an hour"
    )
    same = all(point.verdict is Verdict.SAME for point in comparison.points)
    goals = [
        (f"CPU <= {CPU_GOAL:.0%} of one core: {cost['core_share']:.2%}", cost["core_share"] <= CPU_GOAL),
        (f"throughput same within ±{comparison.delta:.0%} at each load", same),
        (f"on disk <= {BYTES_GOAL} bytes a sample: {cost['bytes_a_sample']:.1f}", cost["bytes_a_sample"] <= BYTES_GOAL),
    ]
    print()
    for words, reached in goals:
        print(f"  goal {words:60} {'reached' if reached else 'NOT REACHED'}")
    return goals


def result(comparison: Comparison, points: list[PointPairs], cost: Own, args: argparse.Namespace) -> dict[str, Any]:
    """Everything that was measured."""
    rows = []
    for pairs_of, compared in zip(points, comparison.points, strict=True):
        interval = compared.interval
        rows.append(
            {
                "workload": str(pairs_of.label),
                "without_tps": [pairs_of.base[repeat] for repeat in pairs_of.repeats],
                "with_tps": [pairs_of.other[repeat] for repeat in pairs_of.repeats],
                "log_ratio": None if interval is None else [interval.low, interval.mean, interval.high],
                "verdict": compared.verdict.value,
            }
        )
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "host": describe_host().model_dump(),
        "server": f"embedded PostgreSQL {VERSION}, client, server and probe on the same cores",
        "settings": SETTINGS,
        "clients": args.clients,
        "seconds": args.seconds,
        "scale": args.scale,
        "delta": comparison.delta,
        "loads": rows,
        "probe": cost,
    }


def main() -> None:
    """Measures, prints, writes to benchmarks/results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=10, help="of each load, behind its warm-up")
    parser.add_argument("--pairs", type=int, default=12, help="of each workload; fewer than 6 make no claim")
    parser.add_argument("--own-seconds", type=int, default=60, help="of the load over which the probe's cost is taken")
    parser.add_argument("--scale", type=int, default=10)
    parser.add_argument("--out", type=Path, default=RESULT, help=f"default: {RESULT.name} in results/")
    parser.add_argument("--dry", action="store_true", help="write no results")
    args = parser.parse_args()
    settings = SETTINGS | {"max_connections": str(args.clients + 20)}
    spec = EmbeddedTarget(kind="embedded", version=VERSION, settings=settings)
    with (
        tempfile.TemporaryDirectory(prefix="pgprobe-cost-") as made,
        open_target("probe-cost", spec, home=Home.locate(), progress=SilentProgress()) as server,
    ):
        folder = Path(made)
        load = Load(server, folder, args)
        load.dataset()
        points = []
        for workload in WORKLOADS:
            print(f"{workload}, {args.clients} clients, without / with the probe")
            points.append(pairs(load, workload, folder, args))
        lines = folder / "own.jsonl"
        backend = BackendCpu(server)
        backend.start()
        load.tps(WORKLOADS[-1], args.own_seconds, lines)
        cost = own(lines, folder, backend.end())
    arms = Arms("no probe", "pgprobe", Metric.TPS, paired=True, points=tuple(points))
    comparison = compare([arms])[0]
    show(comparison, cost)
    if not args.dry:
        text = json.dumps(result(comparison, points, cost, args), indent=2)
        args.out.parent.mkdir(exist_ok=True)
        args.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
