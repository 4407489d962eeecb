"""sysbench's own oltp_read_write.lua by sysbench and by pgdrive, from 2 to 256 threads, interleaved.

Each round runs both at one number of threads one after the other, in an order that turns. A figure is the median
of its rounds, the ratio of CPU the median of the rounds' ratios. CPU is user and system time of the client's
process, from wait4, a transaction. Rows are drawn uniformly from 4 tables of 100,000.
"""

import argparse
import json
import statistics
from datetime import UTC, datetime
from pathlib import Path
from typing import TypedDict

from places import VERSION, Environment, places
from programs import OLTP_ROWS, OLTP_TABLES, Kind, Limit, Load, Programs, Sample

from pgdyno.host import describe_host

RESULT = Path(__file__).parent / "results" / "sysbench.json"
THREADS = "2,4,8,16,32,64,128,256"
CPU_GOAL_AT, CPU_GOAL = 64, 0.40
PROGRAMS: tuple[Kind, Kind] = ("pgdrive", "sysbench")


class Figures(TypedDict):
    """Medians of one program at one number of threads."""

    tps: float
    p95_ms: float
    cpu_us: float


class Row(TypedDict):
    """Both programs at one number of threads."""

    threads: int
    pgdrive: Figures
    sysbench: Figures
    cpu_ratio: float


def measure(programs: Programs, environment: Environment, threads: int, seconds: int, rounds: int) -> Row:
    """All rounds at one number of threads."""
    samples: dict[Kind, list[Sample]] = {name: [] for name in PROGRAMS}
    for turn in range(rounds):
        for name in PROGRAMS if turn % 2 == 0 else reversed(PROGRAMS):
            load = Load(name, "oltp_read_write", threads, Limit(seconds), scale=1)
            samples[name].append(programs.run(load, environment))
    ours, theirs = samples["pgdrive"], samples["sysbench"]
    ratio = statistics.median(a.cpu_us / b.cpu_us for a, b in zip(ours, theirs, strict=True))
    return Row(threads=threads, pgdrive=figures(ours), sysbench=figures(theirs), cpu_ratio=round(ratio, 3))


def figures(samples: list[Sample]) -> Figures:
    """The medians."""
    return Figures(
        tps=round(statistics.median(sample.tps for sample in samples), 1),
        p95_ms=round(statistics.median(sample.p95_ms for sample in samples if sample.p95_ms is not None), 2),
        cpu_us=round(statistics.median(sample.cpu_us for sample in samples), 1),
    )


def show(row: Row) -> None:
    """Prints one line of the table."""
    ours, theirs = row["pgdrive"], row["sysbench"]
    print(
        f"{row['threads']:>7}"
        f"{ours['tps']:>10,.0f}{theirs['tps']:>10,.0f}"
        f"{ours['p95_ms']:>10,.2f}{theirs['p95_ms']:>10,.2f}"
        f"{ours['cpu_us']:>10,.0f}{theirs['cpu_us']:>10,.0f}"
        f"{row['cpu_ratio']:>8.2f}",
        flush=True,
    )


def main() -> None:
    """Runs the table, prints it, writes it to benchmarks/results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", default=THREADS, help=f"numbers of threads (default: {THREADS})")
    parser.add_argument("--seconds", type=int, default=20, help="of each load")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULT, help=f"default: {RESULT.name} in results/")
    args = parser.parse_args()
    threads = [int(one) for one in args.threads.split(",")]
    programs = Programs.find(None)
    if programs.sysbench is None:
        parser.error("sysbench is not installed: `make bench-packages` installs it")
    print(f"{args.rounds} rounds of {args.seconds} s, {OLTP_TABLES} tables of {OLTP_ROWS:,} rows, unix socket")
    print(f"{'':7}{'tps':>20}{'95th percentile, ms':>20}{'client CPU, us a tx':>20}{'of':>8}")
    print(f"threads{'pgdrive  sysbench'.rjust(20) * 3}{'CPU':>8}")
    rows = []
    with places(1, max(threads)) as environments:
        for count in threads:
            rows.append(measure(programs, environments["unix"], count, args.seconds, args.rounds))
            show(rows[-1])
    for row in rows:
        if row["threads"] == CPU_GOAL_AT:
            reached = "reached" if row["cpu_ratio"] <= CPU_GOAL else "NOT REACHED"
            print(f"goal at {CPU_GOAL_AT} threads: CPU <= {CPU_GOAL} x sysbench's: {row['cpu_ratio']}: {reached}")
    result = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "host": describe_host().model_dump(),
        "programs": programs.versions(),
        "server": f"embedded PostgreSQL {VERSION}, unix socket, client and server on the same cores",
        "seconds": args.seconds,
        "rounds": args.rounds,
        "rows": rows,
    }
    args.out.parent.mkdir(exist_ok=True)
    args.out.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
