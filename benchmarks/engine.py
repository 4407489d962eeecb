"""pgdrive beside pgbench on one server: client CPU a transaction and throughput, interleaved.

Each pair runs pgdrive and pgbench one after the other, in alternating order. The figure is the ratio of
the two in a pair, and the median of these ratios over all pairs: a machine that gets slower meanwhile
slows both. CPU is user and system time of the client's process, from wait4.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pgdyno.host import describe_host
from pgdyno.plan.model import EmbeddedTarget
from pgdyno.run import find_engine
from pgdyno.target import Home, SilentProgress, open_target

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Case:
    """One row of the table."""

    name: str
    options: tuple[str, ...]
    where: Literal["unix", "tcp", "null"] = "unix"
    """The server over a unix socket or TCP, or the server that answers at once."""
    goal: float | None = None
    """The ratio of client CPU to pgbench's that docs/design/performance.md asks for."""


@dataclass(frozen=True)
class Sample:
    """One run of one program."""

    tps: float
    cpu_us: float
    """Client CPU a transaction."""


CASES = [
    Case("select-only, unix", ("-S", "-M", "prepared"), goal=0.55),
    Case("select-only, TCP", ("-S", "-M", "prepared"), where="tcp", goal=0.65),
    Case("tpcb-like, unix", ("-b", "tpcb-like", "-M", "prepared"), goal=0.60),
    Case("select-only, null server", ("-S", "-M", "prepared"), where="null"),
]


def measure(program: str, case: Case, clients: int, seconds: int, environment: dict[str, str]) -> Sample:
    """Runs one load; the process's own CPU time over the transactions that it counts."""
    command = [program, "-n", "-c", str(clients), "-j", "1", "-T", str(seconds), *case.options]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = subprocess.Popen(command, stdout=out, stderr=err, env={**os.environ, **environment})
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        if child.returncode != 0:
            sys.exit(f"{' '.join(command)} failed: {err.read().decode()}")
        text = out.read().decode()
    processed = int(re.search(r"actually processed: (\d+)", text)[1])  # type: ignore[index]
    tps = float(re.search(r"tps = ([\d.]+)", text)[1])  # type: ignore[index]
    return Sample(tps, (usage.ru_utime + usage.ru_stime) * 1e6 / processed)


def compare(
    case: Case, pgbench: str, clients: int, seconds: int, pairs: int, environment: dict[str, str]
) -> dict[str, object]:
    """All pairs of one case."""
    ours, theirs = [], []
    engine = str(find_engine().path)
    for pair in range(pairs):
        order = [(engine, ours), (pgbench, theirs)]
        for program, samples in order if pair % 2 == 0 else reversed(order):
            samples.append(measure(program, case, clients, seconds, environment))
    return {
        "case": case.name,
        "cpu_goal": case.goal,
        "pgdrive_cpu_us": round(statistics.median(s.cpu_us for s in ours), 2),
        "pgbench_cpu_us": round(statistics.median(s.cpu_us for s in theirs), 2),
        "cpu_ratio": round(statistics.median(a.cpu_us / b.cpu_us for a, b in zip(ours, theirs, strict=True)), 3),
        "pgdrive_tps": round(statistics.median(s.tps for s in ours)),
        "pgbench_tps": round(statistics.median(s.tps for s in theirs)),
        "tps_ratio": round(statistics.median(a.tps / b.tps for a, b in zip(ours, theirs, strict=True)), 3),
    }


def verdict(row: dict[str, object]) -> str:
    """Whether a row reaches its goal."""
    ratio, goal = row["cpu_ratio"], row["cpu_goal"]
    assert isinstance(ratio, float)
    assert isinstance(goal, float)
    return "reached" if ratio <= goal else "not reached"


@contextmanager
def null_server() -> Iterator[dict[str, str]]:
    """The environment with which pgnull is found, while it runs."""
    program = find_engine().path.with_name("pgnull")
    with tempfile.TemporaryDirectory(prefix="pgnull-") as folder:
        command = [str(program), f"--socket-dir={folder}", "--port=5432", "--scale=10", "--parent-lease"]
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdout.readline()
        try:
            yield {"PGHOST": folder, "PGPORT": "5432", "PGUSER": "bench", "PGDATABASE": "bench"}
        finally:
            server.stdin.close()
            server.wait()
            server.stdout.close()


def main() -> None:
    """Runs the table, prints it, writes it to benchmarks/results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pgbench", default=shutil.which("pgbench"), help="the pgbench to compare with")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--scale", type=int, default=10)
    args = parser.parse_args()
    if args.pgbench is None:
        sys.exit("pgbench is not installed: install your distribution's PostgreSQL, or name one with --pgbench")
    settings = {"shared_buffers": "512MB", "max_connections": str(args.clients + 20), "synchronous_commit": "off"}
    spec = EmbeddedTarget(kind="embedded", version="18", settings=settings)
    with open_target("bench", spec, home=Home.locate(), progress=SilentProgress()) as server:
        environment = server.environment()
        load = [str(find_engine().path), "-i", "-q", "-s", str(args.scale)]
        subprocess.run(load, env={**os.environ, **environment}, check=True, stderr=subprocess.DEVNULL)
        with null_server() as null:
            places = {"unix": environment, "tcp": {**environment, "PGHOST": "127.0.0.1"}, "null": null}
            rows = [
                compare(case, args.pgbench, args.clients, args.seconds, args.pairs, places[case.where])
                for case in CASES
            ]
    version = subprocess.run([args.pgbench, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    result = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "host": describe_host().model_dump(),
        "python": platform.python_version(),
        "pgbench": version,
        "server": "embedded PostgreSQL 18, unix socket, client and server on the same cores",
        "clients": args.clients,
        "seconds": args.seconds,
        "pairs": args.pairs,
        "rows": rows,
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "engine.json").write_text(json.dumps(result, indent=2) + "\n")
    print(f"{args.clients} clients, one worker, {args.pairs} interleaved pairs of {args.seconds} s, {version}")
    print(f"{'':24}{'client CPU, us a transaction':>32}{'transactions a second':>32}")
    print(f"{'':24}{'pgdrive':>10}{'pgbench':>10}{'ratio':>12}{'pgdrive':>10}{'pgbench':>10}{'ratio':>12}")
    for row in rows:
        cpu = f"{row['pgdrive_cpu_us']:>10}{row['pgbench_cpu_us']:>10}{row['cpu_ratio']:>12}"
        goal = "" if row["cpu_goal"] is None else f"   CPU goal {row['cpu_goal']}: {verdict(row)}"
        print(f"{row['case']:24}{cpu}{row['pgdrive_tps']:>10}{row['pgbench_tps']:>10}{row['tps_ratio']:>12}{goal}")


if __name__ == "__main__":
    main()
