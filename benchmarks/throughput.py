"""Throughput of one server under pgdrive with its own choice of threads, and under the best peer.

A user takes the generator that shows what the server can do. So each load runs by pgdrive and by its peer in turn, in
an order that is swapped each time, and the figure is the median of the ratios of throughput, pair by pair: single pairs
scatter by a factor of two on shared machines. Both are measured after the same seconds of warm-up: servers and
schedulers are faster or slower in a load's first seconds. The peer is sysbench for its own script, else pgbench with
whichever number of threads does best in a short race. Client and server share the machine's cores.
"""

import argparse
import json
import os
import statistics
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypedDict

from places import VERSION, Environment, places
from programs import OLTP_ROWS, OLTP_TABLES, WARMUP_S, Kind, Limit, Load, NotReportedError, Programs, Workload

from pgdyno.host import describe_host

RESULT = Path(__file__).parent / "results" / "throughput.json"
GOAL = 0.97
CLIENTS = "1,2,4,8,16,64,256"
WORKLOADS: Sequence[Workload] = ("select-only", "tpcb-like", "oltp_read_write")
RACE_ROUNDS, RACE_SECONDS = 3, 2


class Row(TypedDict):
    """One load."""

    workload: str
    clients: int
    peer: str
    pgdrive_tps: float
    peer_tps: float
    threads: list[int]
    """Those that pgdrive chose, in each pair."""
    ratios: list[float]
    """pgdrive's throughput to the peer's, pair by pair."""
    ratio: float
    """Their median."""


def peer_of(
    programs: Programs, environment: Environment, workload: Workload, clients: int, scale: int
) -> tuple[Kind, int]:
    """The peer, and its number of threads: pgbench's best of one, one for each core, and one for each client."""
    if workload == "oltp_read_write":
        return "sysbench", clients
    cores = len(os.sched_getaffinity(0))
    numbers = sorted({1, min(clients, cores), min(clients, 4 * cores)})
    tps: dict[int, list[float]] = {number: [] for number in numbers}
    for turn in range(RACE_ROUNDS if len(numbers) > 1 else 0):
        for number in numbers if turn % 2 == 0 else reversed(numbers):
            load = Load("pgbench", workload, clients, Limit(RACE_SECONDS), scale, number, WARMUP_S)
            tps[number].append(programs.run(load, environment).tps)
    return "pgbench", max(numbers, key=lambda number: statistics.median(tps[number] or [0.0]))


def measure(
    programs: Programs, environment: Environment, workload: Workload, clients: int, scale: int, seconds: int, pairs: int
) -> Row:
    """All pairs of one load."""
    peer, threads = peer_of(programs, environment, workload, clients, scale)
    loads = (
        Load("pgdrive", workload, clients, Limit(seconds), scale, None, WARMUP_S),
        Load(peer, workload, clients, Limit(seconds), scale, threads, WARMUP_S),
    )
    ours, theirs, chosen = [], [], []
    for turn in range(pairs):
        samples = {}
        for load in loads if turn % 2 == 0 else reversed(loads):
            samples[load.program] = programs.run(load, environment)
        ours.append(samples["pgdrive"].tps)
        theirs.append(samples[peer].tps)
        chosen.append(samples["pgdrive"].threads or 0)
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    return Row(
        workload=workload,
        clients=clients,
        peer=peer if peer == "sysbench" else f"pgbench -j {threads}",
        pgdrive_tps=round(statistics.median(ours)),
        peer_tps=round(statistics.median(theirs)),
        threads=chosen,
        ratios=[round(ratio, 3) for ratio in ratios],
        ratio=round(statistics.median(ratios), 3),
    )


def show(row: Row) -> None:
    """Prints one line of the table."""
    chosen = statistics.mode(row["threads"])
    scatter = f"{min(row['ratios']):.2f} to {max(row['ratios']):.2f}"
    verdict = "reached" if row["ratio"] >= GOAL else "NOT REACHED"
    print(
        f"{row['workload']:16}{row['clients']:>8}{row['pgdrive_tps']:>10,.0f}{chosen:>8}"
        f"{row['peer_tps']:>10,.0f}  {row['peer']:14}{row['ratio']:>6.2f}  ({scatter})  {verdict}",
        flush=True,
    )


def main() -> None:
    """Runs the table, prints it, writes it to benchmarks/results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", default=CLIENTS, help=f"numbers of clients (default: {CLIENTS})")
    parser.add_argument("--workloads", default=",".join(WORKLOADS), help="default: all")
    parser.add_argument("--scale", type=int, default=10, help="of pgbench's tables")
    parser.add_argument("--seconds", type=int, default=4, help="of each load")
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--out", type=Path, default=RESULT, help=f"default: {RESULT.name} in results/")
    args = parser.parse_args()
    numbers = [int(one) for one in args.clients.split(",")]
    workloads = [workload for workload in WORKLOADS if workload in args.workloads.split(",")]
    programs = Programs.find(None)
    if programs.sysbench is None:
        parser.error("sysbench is not installed: `make bench-packages` installs it")
    print(f"{args.pairs} pairs of {args.seconds} s, scale {args.scale}, {OLTP_TABLES} tables of {OLTP_ROWS:,} rows")
    print(f"{'workload':16}{'clients':>8}{'pgdrive':>10}{'threads':>8}{'peer':>10}  {'':14}{'ratio':>6}")
    conditions = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "host": describe_host().model_dump(),
        "programs": programs.versions(),
        "server": f"embedded PostgreSQL {VERSION}, unix socket, client and server on the same cores",
        "seconds": args.seconds,
        "warmup_s": WARMUP_S,
        "pairs": args.pairs,
        "goal": GOAL,
    }
    args.out.parent.mkdir(exist_ok=True)
    rows: list[Row] = []
    with places(args.scale, max(numbers)) as environments:
        for workload in workloads:
            for clients in numbers:
                server = environments["unix"]
                try:
                    row = measure(programs, server, workload, clients, args.scale, args.seconds, args.pairs)
                except NotReportedError as error:
                    print(f"{workload:16}{clients:>8}  NOT MEASURED: {error}", flush=True)
                    continue
                rows.append(row)
                show(row)
                # a table takes most of an hour: none of it is lost if it ends early
                args.out.write_text(json.dumps({**conditions, "rows": rows}, indent=2) + "\n")
    reached = sum(row["ratio"] >= GOAL for row in rows)
    loads = len(workloads) * len(numbers)
    print(f"goal: at least {GOAL} of the best peer's throughput: {reached} of {loads} reached")


if __name__ == "__main__":
    main()
