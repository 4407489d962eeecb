"""`pgdrive -i` beside `pgbench -i` on one server: wall time, client and server CPU a row, interleaved.

Each pair loads with pgdrive and with pgbench one after the other, in alternating order, each time after a
checkpoint; the figure is the median of the ratios of the pairs. Client CPU is user and system time of the
process, from wait4; server CPU is that of the postmaster and all its children, from /proc. After that the
same is loaded with `--load-workers` 1, 2 and 4, plain and in four partitions.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from measured import process_ticks, run_measured
from programs import Programs

from pgdyno.host import describe_host
from pgdyno.plan.model import EmbeddedTarget
from pgdyno.target import Home, Server, SilentProgress, open_target

RESULTS = Path(__file__).parent / "results"
ROWS_A_SCALE = 100_000
WALL_GOAL = 0.7
CPU_GOAL = 0.5


@dataclass(frozen=True)
class Sample:
    """One load."""

    wall_s: float
    client_us: float
    """Client CPU a row."""
    server_us: float
    """Server CPU a row."""


def server_cpu_s(server: Server) -> float:
    """CPU time of the server until now: the postmaster, its children, and those that have ended."""
    postmaster = int((server.data_directory / "postmaster.pid").read_text().split()[0])
    children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
    alive = sum(sum(_ticks(int(pid))[:2]) for pid in children)
    # last: it has the time of those that have ended meanwhile
    return (alive + sum(_ticks(postmaster))) / os.sysconf("SC_CLK_TCK")


def _ticks(pid: int) -> list[int]:
    """User and system time of a process, and of children that it has waited for; nothing of one that is gone."""
    try:
        return process_ticks(pid)
    except (FileNotFoundError, ProcessLookupError):
        return []


def load(server: Server, program: str, scale: int, *options: str) -> Sample:
    """Loads once, from a checkpoint on."""
    with server.connect() as connection:
        connection.execute("CHECKPOINT")
    before_s = server_cpu_s(server)
    command = [program, "-i", "-q", "-s", str(scale), *options]
    child = run_measured(command, server.environment())
    server_s = server_cpu_s(server) - before_s
    rows = scale * ROWS_A_SCALE
    return Sample(child.wall_s, child.cpu_s * 1e6 / rows, server_s * 1e6 / rows)


def median(samples: list[Sample]) -> dict[str, float]:
    """The median of each figure."""
    names = asdict(samples[0])
    return {name: round(statistics.median(asdict(sample)[name] for sample in samples), 3) for name in names}


def ratios(ours: list[Sample], theirs: list[Sample]) -> dict[str, float]:
    """The median of the pairs' ratios of each figure."""
    pairs = [(asdict(a), asdict(b)) for a, b in zip(ours, theirs, strict=True)]
    return {name: round(statistics.median(a[name] / b[name] for a, b in pairs), 3) for name in pairs[0][0]}


def compare(server: Server, pgbench: str, engine: str, scale: int, pairs: int) -> dict[str, dict[str, float]]:
    """All pairs."""
    ours: list[Sample] = []
    theirs: list[Sample] = []
    for pair in range(pairs):
        order = [(engine, ours), (pgbench, theirs)]
        for program, samples in order if pair % 2 == 0 else reversed(order):
            samples.append(load(server, program, scale))
    return {"pgdrive": median(ours), "pgbench": median(theirs), "ratio": ratios(ours, theirs)}


def scaling(server: Server, programs: Programs, scale: int, rounds: int) -> list[dict[str, object]]:
    """The same over more connections, beside pgbench, which has one: rows in turn, round by round."""
    ways: list[tuple[str, str, tuple[str, ...]]] = []
    for name, options in [("plain", ()), ("4 partitions", ("--partitions=4",))]:
        ways.append((f"{name}, pgbench", programs.pgbench, options))
        for workers in (1, 2, 4):
            more = (f"--load-workers={workers}", *options)
            ways.append((f"{name}, {workers} worker{'s' if workers > 1 else ''}", programs.pgdrive, more))
    samples: dict[str, list[Sample]] = {name: [] for name, _, _ in ways}
    for _ in range(rounds):
        for name, program, options in ways:
            samples[name].append(load(server, program, scale, *options))
    return [{"case": name, **median(of_case)} for name, of_case in samples.items()]


def line(name: str, figures: dict[str, float]) -> str:
    """A line of the table."""
    return f"{name:26}{figures['wall_s']:>10.2f}{figures['client_us']:>16.3f}{figures['server_us']:>16.3f}"


def main() -> None:
    """Runs all, prints it, writes it to benchmarks/results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pgbench", help="the pgbench to compare with")
    parser.add_argument("--scale", type=int, default=100)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3, help="of the loads with more connections")
    args = parser.parse_args()
    programs = Programs.find(args.pgbench)
    settings = {"shared_buffers": "512MB", "synchronous_commit": "off"}
    spec = EmbeddedTarget(kind="embedded", version="18", settings=settings)
    with open_target("bench", spec, home=Home.locate(), progress=SilentProgress()) as server:
        pairs = compare(server, programs.pgbench, programs.pgdrive, args.scale, args.pairs)
        more = scaling(server, programs, args.scale, args.rounds)
    version = programs.versions()["pgbench"]
    result = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "host": describe_host().model_dump(),
        "python": platform.python_version(),
        "pgbench": version,
        "server": "embedded PostgreSQL 18, unix socket, client and server on the same cores",
        "scale": args.scale,
        "pairs": args.pairs,
        "rounds": args.rounds,
        "beside": pairs,
        "workers": more,
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "load.json").write_text(json.dumps(result, indent=2) + "\n")
    print(f"-i -s {args.scale}, {args.pairs} interleaved pairs, {version}")
    print(f"{'':26}{'wall, s':>10}{'client, us/row':>16}{'server, us/row':>16}")
    for name, figures in pairs.items():
        print(line(name, figures))
    for figure, goal in [("wall_s", WALL_GOAL), ("client_us", CPU_GOAL)]:
        reached = "reached" if pairs["ratio"][figure] <= goal else "not reached"
        print(f"goal for the ratio of {figure}: {goal}: {reached}")
    for row in more:
        print(line(str(row["case"]), {name: value for name, value in row.items() if isinstance(value, float)}))


if __name__ == "__main__":
    main()
