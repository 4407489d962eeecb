"""TPC-C by HammerDB's rules: load time, NOPM of each variant, and the standard's checks after each load.

Rounds run the variants one after the other, in an order that turns, each on a fresh copy of the loaded database
and behind a checkpoint. A figure is the median of its rounds.

With `--hammerdb`, HammerDB itself runs in turn with pgdrive instead: see hammerdb.py. None of these figures is a TPC
result: the workload is derived from TPC-C.
"""

import argparse
import json
import os
import statistics
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypedDict

import hammerdb
from measured import Measured, run_measured
from places import fresh_copy
from programs import Programs

from pgdyno.host import describe_host
from pgdyno.targets import Home, Server, SilentProgress, open_target
from pgdyno.targets.embedded.schema import EmbeddedTarget

RESULTS = Path(__file__).parent / "results"
VERSION = "18"
VARIANTS = ("functions", "procedures", "sql", "sql-pipelined")
TEMPLATE, DATABASE = "tpcc_template", "tpcc"
LARGE = 500
"""Warehouses of the load that is calculated."""


class Row(TypedDict):
    """Medians of one variant."""

    variant: str
    nopm: float
    """By the server's sum(d_next_o_id)."""
    nopm_driver: float
    tpm: float
    new_order_p90_ms: float


@dataclass(frozen=True)
class Bench:
    """One server with TPC-C's data, and the engine."""

    server: Server
    engine: str
    args: argparse.Namespace

    def pgdrive(self, database: str, *options: str) -> Measured:
        """Runs it to its end; a load that is refused, or a broken condition, ends the benchmark."""
        size = f"--warehouses={self.args.warehouses}"  # a copy of a database has no comment that would say it
        return run_measured([self.engine, size, *options], {**self.server.environment(), "PGDATABASE": database})

    def load(self) -> float:
        """Seconds that the load took."""
        fresh_copy(self.server, TEMPLATE, "template1")
        return self.pgdrive(TEMPLATE, "-i", "-q", "--dataset=tpcc").wall_s

    def check(self, database: str) -> float:
        """Seconds that all twelve conditions took."""
        return self.pgdrive(database, "--tpcc-check", "--thorough").wall_s

    def run(self, variant: str) -> Row:
        """One load on a fresh copy, with its conditions checked behind it."""
        fresh_copy(self.server, DATABASE, TEMPLATE)
        load = ["--workload=tpcc", f"--tpcc-variant={variant}", f"--client={self.args.clients}"]
        times = [f"--warmup={self.args.warmup}", f"--time={self.args.seconds}"]
        done = self.pgdrive(DATABASE, *load, *times, "--events=-")
        end: dict[str, Any] = json.loads(done.out.splitlines()[-1])
        self.check(DATABASE)
        figures = end["tpcc"]
        new_order = next(one for one in figures["types"] if one["name"] == "New-Order")
        return Row(
            variant=variant,
            nopm=figures["server"]["nopm"],
            nopm_driver=figures["nopm"],
            tpm=figures["tpm"],
            new_order_p90_ms=new_order["p90_ns"] / 1e6,
        )


def medians(rows: list[Row]) -> Row:
    """Of the rounds of one variant."""

    def median(of: list[float]) -> float:
        return round(statistics.median(of), 1)

    return Row(
        variant=rows[0]["variant"],
        nopm=median([row["nopm"] for row in rows]),
        nopm_driver=median([row["nopm_driver"] for row in rows]),
        tpm=median([row["tpm"] for row in rows]),
        new_order_p90_ms=median([row["new_order_p90_ms"] for row in rows]),
    )


def arguments() -> argparse.Namespace:
    """Of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--warehouses", type=int, default=10)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seconds", type=int, default=60, help="measured, of each load")
    parser.add_argument("--warmup", type=int, default=20, help="seconds before")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--synchronous-commit", choices=("on", "off"), default="on")
    parser.add_argument("--out", type=Path, help="default: tpcc.json or hammerdb.json in results/")
    group = parser.add_argument_group("comparison with HammerDB")
    where = os.environ.get("HAMMERDB")
    group.add_argument("--hammerdb", nargs="?", const=where, metavar="FOLDER", help="its folder (default: $HAMMERDB)")
    group.add_argument("--tclsh", default="tclsh8.6", help="the Tcl that runs it: tclsh8.6 up to 4.12, then tclsh9.0")
    group.add_argument("--routines", choices=("functions", "procedures"), default="functions")
    group.add_argument("--users", type=_numbers, default=[1, 4, 16], help="virtual users, by commas (default: 1,4,16)")
    group.add_argument("--minutes", type=int, default=2, help="measured, of each load")
    group.add_argument("--rampup", type=int, default=1, help="minutes before")
    args = parser.parse_args()
    if "--hammerdb" in sys.argv and args.hammerdb is None:
        parser.error("--hammerdb needs a folder, or the variable HAMMERDB")
    return args


def _numbers(text: str) -> list[int]:
    return [int(each) for each in text.split(",")]


def main() -> None:
    """Loads, runs all, prints a table, writes it to benchmarks/results."""
    args = arguments()
    settings = {
        "shared_buffers": "2GB",
        "max_wal_size": "8GB",
        "max_connections": str(max([args.clients, *args.users]) + 20),
        "synchronous_commit": args.synchronous_commit,
        **(hammerdb.SETTINGS if args.hammerdb else {}),
    }
    spec = EmbeddedTarget(kind="embedded", version=VERSION, settings=settings)
    with open_target("bench", spec, home=Home.locate(), progress=SilentProgress()) as server:
        if args.hammerdb:
            write(args, settings, "hammerdb.json", hammerdb.compare(server, Programs.find(None).pgdrive, args))
            return
        bench = Bench(server, Programs.find(None).pgdrive, args)
        load_s = bench.load()
        check_s = bench.check(TEMPLATE)
        each_s = load_s / args.warehouses
        print(f"{args.warehouses} warehouses loaded in {load_s:.1f} s, {each_s:.2f} s a warehouse: ", end="")
        print(f"{LARGE} by calculation in {LARGE * each_s / 60:.1f} min")
        print(f"all 12 conditions and cardinalities hold after the load (looked at in {check_s:.1f} s)", flush=True)
        rounds: dict[str, list[Row]] = {variant: [] for variant in VARIANTS}
        for turn in range(args.rounds):
            for variant in VARIANTS if turn % 2 == 0 else reversed(VARIANTS):
                rounds[variant].append(bench.run(variant))
    rows = [medians(of_variant) for of_variant in rounds.values()]
    print(f"all 12 conditions hold after each of {args.rounds * len(rows)} loads, and each mix was the one asked for")
    print(f"{args.clients} clients, {args.rounds} rounds of {args.seconds} s behind {args.warmup} s, {settings}")
    print(f"{'':14}{'NOPM, server':>14}{'driver':>10}{'TPM':>10}{'New-Order p90, ms':>19}")
    for row in rows:
        print(f"{row['variant']:14}{row['nopm']:>14,.0f}{row['nopm_driver']:>10,.0f}{row['tpm']:>10,.0f}", end="")
        print(f"{row['new_order_p90_ms']:>19.1f}")
    load = {name: vars(args)[name] for name in ("clients", "seconds", "warmup")}
    write(args, settings, "tpcc.json", {**load, "load_s": round(load_s, 2), "rows": rows})


def write(args: argparse.Namespace, settings: dict[str, str], name: str, figures: dict[str, object]) -> None:
    """Writes the result file."""
    result = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "host": describe_host().model_dump(),
        "server": f"embedded PostgreSQL {VERSION}, unix socket, client and server on the same cores",
        "settings": settings,
        "warehouses": args.warehouses,
        "rounds": args.rounds,
        **figures,
    }
    out = args.out or RESULTS / name
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
