"""pgdrive beside pgbench, sysbench and a bare loop: client CPU, throughput, memory, time to connect; interleaved.

Each round runs all programs of a case one after the other, in an order that turns. A figure is the median of
its rounds; a ratio is the median of the ratios in each round: a machine that gets slower meanwhile slows all.
CPU is user and system time of the client's process, from wait4.
"""

import argparse
import json
import platform
import statistics
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypedDict

from places import VERSION, Environment, Place, places
from programs import Kind, Limit, Load, Programs, Sample, Workload

from pgdyno.host import describe_host

RESULT = Path(__file__).parent / "results" / "engine.json"

Measure = Literal["cpu_us", "tps", "connect_ms", "peak_bytes"]


@dataclass(frozen=True)
class Rival:
    """A program that pgdrive is held against."""

    program: Kind
    workload: Workload

    @property
    def name(self) -> str:
        """As the table has it."""
        program = self.program.replace("_", " ")
        return program if self.workload != "tpcb-like" or program == "bare loop" else f"{program} {self.workload}"


@dataclass(frozen=True)
class Goal:
    """What docs/design/performance.md asks of pgdrive."""

    measure: Measure
    bound: float
    """Of the ratio to the rival's figure; of the figure itself where there is no rival."""
    rival: Rival | None

    def is_reached(self, figure: float) -> bool:
        """More is better of transactions a second, less of everything else."""
        return figure >= self.bound if self.measure == "tps" else figure <= self.bound

    def words(self) -> str:
        """Such as `cpu <= 0.55 x pgbench`."""
        sign = ">=" if self.measure == "tps" else "<="
        if self.rival is None:
            return f"{WORDS[self.measure]} {sign} {shown(self.measure, self.bound)}"
        return f"{WORDS[self.measure]} {sign} {self.bound} x {self.rival.name}"


WORDS: dict[Measure, str] = {"cpu_us": "CPU", "tps": "tps", "connect_ms": "connecting", "peak_bytes": "memory"}


@dataclass(frozen=True)
class Case:
    """A part of the table: pgdrive and its rivals under one load."""

    name: str
    workload: Workload
    place: Place
    goals: tuple[Goal, ...]
    others: tuple[Rival, ...] = ()
    """Shown beside pgdrive without a goal."""
    clients: int | None = None
    """None: the command line's."""
    transactions: int | None = None
    """Of each client, where connecting is what counts; None: by time."""

    def rivals(self, programs: Programs) -> list[Rival]:
        """Those that are installed."""
        rivals = dict.fromkeys([*(goal.rival for goal in self.goals if goal.rival is not None), *self.others])
        return [rival for rival in rivals if getattr(programs, rival.program) is not None]


PGBENCH = Rival("pgbench", "select-only")
SYSBENCH = Rival("sysbench", "select-only")
ORDINARY = Rival("pgbench", "tpcb-like")
PIPELINE = Rival("pgbench", "tpcb-pipelined")
BARE = Rival("bare_loop", "select-only")
BARE_TPCB = Rival("bare_loop", "tpcb-like")
OLTP = Rival("sysbench", "oltp_read_write")

CASES = [
    Case("select-only, unix", "select-only", "unix", (Goal("cpu_us", 1.15, BARE),), others=(PGBENCH, SYSBENCH)),
    Case("select-only, TCP", "select-only", "tcp", (Goal("cpu_us", 1.15, BARE),), others=(PGBENCH, SYSBENCH)),
    Case("tpcb-like, unix", "tpcb-like", "unix", (Goal("cpu_us", 1.15, BARE_TPCB),), others=(ORDINARY,)),
    Case(
        "tpcb-like in one pipeline, unix",
        "tpcb-pipelined",
        "unix",
        (Goal("cpu_us", 0.65, PIPELINE), Goal("cpu_us", 0.15, ORDINARY)),
    ),
    Case("sysbench's oltp_read_write.lua, unix", "oltp_read_write", "unix", (Goal("cpu_us", 0.40, OLTP),)),
    Case(
        "sysbench's oltp_read_write.lua, 2,000 connections, null server",
        "oltp_read_write",
        "null",
        (Goal("peak_bytes", 100e6, None),),
        clients=2_000,
        transactions=5,
    ),
    Case("select-only, null server", "select-only", "null", (Goal("tps", 1.0, BARE),), others=(PGBENCH, SYSBENCH)),
    Case(
        "1,000 connections, null server", "select-only", "null", (), others=(PGBENCH,), clients=1_000, transactions=20
    ),
    Case(
        "10,000 connections, null server",
        "select-only",
        "null",
        (Goal("peak_bytes", 20e6, None), Goal("connect_ms", 0.5, PGBENCH)),
        clients=10_000,
        transactions=5,
    ),
]


class Figures(TypedDict):
    """Medians of one program in one case."""

    program: str
    cpu_us: float
    tps: float
    connect_ms: float | None
    peak_bytes: float


class Verdict(TypedDict):
    """One goal, as measured."""

    goal: str
    figure: float
    reached: bool


class Row(TypedDict):
    """One case, as measured."""

    case: str
    clients: int
    figures: list[Figures]
    verdicts: list[Verdict]


def measure(case: Case, programs: Programs, environment: Environment, args: argparse.Namespace) -> Row:
    """All rounds of one case."""
    clients = case.clients or args.clients
    ours = Rival("pgdrive", case.workload)
    samples: dict[Rival, list[Sample]] = {one: [] for one in [ours, *case.rivals(programs)]}
    for turn in range(args.pairs):
        order = list(samples)
        for one in order if turn % 2 == 0 else reversed(order):
            limit = Limit(args.seconds, case.transactions)
            load = Load(one.program, one.workload, clients, limit, args.scale)
            samples[one].append(programs.run(load, environment))
    return Row(
        case=case.name,
        clients=clients,
        figures=[figures(one, taken) for one, taken in samples.items()],
        verdicts=[verdict(goal, samples, ours) for goal in case.goals if goal.rival is None or goal.rival in samples],
    )


def figures(rival: Rival, samples: list[Sample]) -> Figures:
    """The medians."""
    connects = [sample.connect_ms for sample in samples if sample.connect_ms is not None]
    return Figures(
        program=rival.name,
        cpu_us=round(statistics.median(sample.cpu_us for sample in samples), 2),
        tps=round(statistics.median(sample.tps for sample in samples)),
        connect_ms=round(statistics.median(connects), 1) if connects else None,
        peak_bytes=statistics.median(sample.peak_bytes for sample in samples),
    )


def verdict(goal: Goal, samples: dict[Rival, list[Sample]], ours: Rival) -> Verdict:
    """Whether pgdrive reaches a goal."""
    mine = [getattr(sample, goal.measure) for sample in samples[ours]]
    if goal.rival is not None:
        theirs = [getattr(sample, goal.measure) for sample in samples[goal.rival]]
        mine = [a / b for a, b in zip(mine, theirs, strict=True)]
    figure = statistics.median(mine)
    return Verdict(goal=goal.words(), figure=round(figure, 3), reached=goal.is_reached(figure))


def shown(measure: Measure, figure: float | None) -> str:
    """A figure with as many digits as it has to say."""
    if figure is None:
        return "-"
    if measure == "peak_bytes":
        return f"{figure / 1e6:.1f} MB"
    return f"{figure:,.0f}" if measure == "tps" else f"{figure:,.2f}" if measure == "cpu_us" else f"{figure:,.0f} ms"


def show(row: Row) -> None:
    """Prints one case."""
    print(f"\n{row['case']}, {row['clients']:,} clients")
    print(f"  {'':22}{'us CPU a tx':>12}{'tps':>12}{'connecting':>12}{'memory':>12}")
    for one in row["figures"]:
        cpu, tps = shown("cpu_us", one["cpu_us"]), shown("tps", one["tps"])
        connect, memory = shown("connect_ms", one["connect_ms"]), shown("peak_bytes", one["peak_bytes"])
        print(f"  {one['program']:22}{cpu:>12}{tps:>12}{connect:>12}{memory:>12}")
    for one_verdict in row["verdicts"]:
        figure = one_verdict["figure"]
        text = shown("peak_bytes", figure) if figure > 1000 else f"{figure:.3f}"
        print(f"  goal {one_verdict['goal']:36} {text:>10}  {'reached' if one_verdict['reached'] else 'NOT REACHED'}")


def main() -> None:
    """Runs the table, prints it, writes it to benchmarks/results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pgbench", help="the pgbench to compare with; default: the one on the PATH")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=5, help="rounds of each case")
    parser.add_argument("--scale", type=int, default=10)
    parser.add_argument("--only", default="", help="cases whose names hold this; then nothing is written")
    parser.add_argument("--out", type=Path, default=RESULT, help=f"default: {RESULT.name} in results/")
    args = parser.parse_args()
    programs = Programs.find(args.pgbench)
    if programs.bare_loop is None:
        parser.error("the bare loop is not built: run `make bench`, which builds it")
    if programs.sysbench is None:
        print("sysbench is not installed, so it is left out: `make bench-packages` installs it")
    rows = []
    with places(args.scale, args.clients) as environments:
        for case in CASES:
            if args.only in case.name:
                rows.append(measure(case, programs, environments[case.place], args))
                show(rows[-1])
    reached = [one["reached"] for row in rows for one in row["verdicts"]]
    print(f"\n{sum(reached)} of {len(reached)} goals reached")
    if args.only:
        return
    result = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "host": describe_host().model_dump(),
        "python": platform.python_version(),
        "programs": programs.versions(),
        "server": f"embedded PostgreSQL {VERSION}, client and server on the same cores",
        "seconds": args.seconds,
        "pairs": args.pairs,
        "scale": args.scale,
        "cases": rows,
    }
    args.out.parent.mkdir(exist_ok=True)
    args.out.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
