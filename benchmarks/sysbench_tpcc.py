"""Percona's sysbench-tpcc, as published, by sysbench and by pgdrive, interleaved.

Both run the same script on a fresh copy of the same tables, which the script's own `prepare` filled. A figure is the
median of its rounds, a ratio the median of the rounds' ratios; CPU is user and system time of the client's process,
from wait4, a transaction. The workload is derived from TPC-C; none of these figures is a TPC result.
"""

import argparse
import json
import os
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypedDict

from measured import run_measured
from places import fresh_copy
from programs import Kind, Programs, Sample, sample_of
from psycopg import sql
from sysbench import PROGRAMS, Figures, figures

from pgdyno.host import describe_host
from pgdyno.targets import Home, Server, SilentProgress, open_target
from pgdyno.targets.embedded.schema import EmbeddedTarget

RESULT = Path(__file__).parent / "results" / "sysbench_tpcc.json"
VERSION = "18"
TEMPLATE, DATABASE = "prepared", "compared"
TPS_GOAL, CPU_GOAL = 0.97, 0.5


class Row(TypedDict):
    """Both programs at one number of threads."""

    threads: int
    pgdrive: Figures
    sysbench: Figures
    tps_ratio: float
    cpu_ratio: float


@dataclass(frozen=True)
class Bench:
    """One server with the script's tables, and both programs."""

    server: Server
    programs: Programs
    script: Path
    options: Mapping[str, str]

    def _pgdrive(self, *args: str) -> list[str]:
        given = [f"--lua-opt={name}={value}" for name, value in self.options.items()]
        return [self.programs.pgdrive, f"--lua={self.script}", *given, *args]

    def _sysbench(self, threads: int, seconds: int) -> list[str]:
        assert self.programs.sysbench is not None
        reached = self.server.environment()
        where = {name: reached.get(f"PG{name.upper()}", "") for name in ("host", "port", "user")}
        return [
            self.programs.sysbench,
            str(self.script),
            "--db-driver=pgsql",
            *(f"--pgsql-{name}={value}" for name, value in where.items()),
            f"--pgsql-db={DATABASE}",
            *(f"--{name}={value}" for name, value in self.options.items()),
            f"--threads={threads}",
            f"--time={seconds}",
            "run",
        ]

    def prepare(self) -> None:
        """Loads the tables. The script starts `sleep`."""
        with self.server.connect("postgres") as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(TEMPLATE)))
        self._run(self._pgdrive("--lua-command=prepare"), TEMPLATE)
        with self.server.connect(TEMPLATE) as connection:
            connection.execute("VACUUM (FREEZE, ANALYZE)")

    def run(self, program: Kind, threads: int, seconds: int) -> Sample:
        """One run on a fresh copy."""
        fresh_copy(self.server, DATABASE, TEMPLATE)
        if program == "sysbench":
            return self._run(self._sysbench(threads, seconds), DATABASE, program)
        return self._run(self._pgdrive(f"--client={threads}", f"--time={seconds}"), DATABASE, program)

    def _run(self, command: list[str], database: str, program: Kind | None = None) -> Sample:
        # sysbench finds a script's modules only in the working folder and in this one
        modules = {"LUA_PATH": f"{self.script.parent}/?.lua"}
        done = run_measured(command, {**self.server.environment(), **modules, "PGDATABASE": database})
        if program is None:
            return Sample(0, done.cpu_s, None, done.peak_bytes)
        return sample_of(program, done.out, done.cpu_s, done.peak_bytes)


def measure(bench: Bench, threads: int, seconds: int, rounds: int) -> Row:
    """All rounds at one number of threads."""
    samples: dict[Kind, list[Sample]] = {name: [] for name in PROGRAMS}
    for turn in range(rounds):
        for name in PROGRAMS if turn % 2 == 0 else reversed(PROGRAMS):
            samples[name].append(bench.run(name, threads, seconds))
    pairs = list(zip(samples["pgdrive"], samples["sysbench"], strict=True))
    return Row(
        threads=threads,
        pgdrive=figures(samples["pgdrive"]),
        sysbench=figures(samples["sysbench"]),
        tps_ratio=round(statistics.median(ours.tps / theirs.tps for ours, theirs in pairs), 3),
        cpu_ratio=round(statistics.median(ours.cpu_us / theirs.cpu_us for ours, theirs in pairs), 3),
    )


def show(row: Row) -> None:
    """Prints what was measured, and which goals are reached."""
    ours, theirs = row["pgdrive"], row["sysbench"]
    reached = row["tps_ratio"] >= TPS_GOAL and row["cpu_ratio"] <= CPU_GOAL
    print(
        f"{row['threads']} threads: {ours['tps']:,.0f} and {theirs['tps']:,.0f} tps, {row['tps_ratio']:.2f} (goal "
        f"{TPS_GOAL}); 95th percentile {ours['p95_ms']:.1f} and {theirs['p95_ms']:.1f} ms; CPU a transaction "
        f"{ours['cpu_us']:,.0f} and {theirs['cpu_us']:,.0f} us, {row['cpu_ratio']:.2f} (goal {CPU_GOAL}): "
        f"{'reached' if reached else 'NOT REACHED'}",
        flush=True,
    )


def main() -> None:
    """Measures, prints, and writes results/sysbench_tpcc.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    where = os.environ.get("SYSBENCH_TPCC")
    parser.add_argument("folder", type=Path, nargs="?", default=where, help="the checkout (default: $SYSBENCH_TPCC)")
    parser.add_argument("--scale", type=int, default=10, help="warehouses")
    parser.add_argument("--threads", default="1,4,16,64", help="numbers of threads (default: 1,4,16,64)")
    parser.add_argument("--seconds", type=int, default=30, help="of each load")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULT, help=f"default: {RESULT.name} in results/")
    args = parser.parse_args()
    programs = Programs.find(None)
    if args.folder is None or not (args.folder / "tpcc.lua").is_file():
        parser.error("name a checkout of sysbench-tpcc, or set SYSBENCH_TPCC")
    if programs.sysbench is None:
        parser.error("sysbench is not installed: `make bench-packages` installs it")
    threads = [int(one) for one in args.threads.split(",")]
    settings = {"shared_buffers": "1GB", "max_wal_size": "8GB", "max_connections": str(max(threads) + 20)}
    spec = EmbeddedTarget(kind="embedded", version=VERSION, settings=settings | {"synchronous_commit": "off"})
    with open_target("sysbench-tpcc", spec, home=Home.locate(), progress=SilentProgress()) as server:
        options = {"scale": str(args.scale), "tables": "1", "use_fk": "0", "trx_level": "RC"}
        bench = Bench(server, programs, args.folder.resolve() / "tpcc.lua", options)
        bench.prepare()
        rows = [measure(bench, count, args.seconds, args.rounds) for count in threads]
    print(f"pgdrive and sysbench, {args.scale} warehouses, {args.rounds} rounds of {args.seconds} s:")
    for row in rows:
        show(row)
    result = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "host": describe_host().model_dump(),
        "programs": programs.versions(),
        "settings": settings,
        **{name: vars(args)[name] for name in ("scale", "seconds", "rounds")},
        "rows": rows,
    }
    args.out.parent.mkdir(exist_ok=True)
    args.out.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
