"""The load generators that are compared: how each is called, and what it says of itself."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from measured import run_measured

from pgdyno.programs import find_engine

SCRIPTS = Path(__file__).parent / "scripts"
BARE_LOOP = Path(__file__).parents[1] / "target/release/bare_loop"

ATTEMPTS = 3
"""Loads until a peer has reported its seconds: with many clients, sysbench may begin late and report few of them."""

Kind = Literal["pgdrive", "pgbench", "sysbench", "bare_loop"]
Workload = Literal["select-only", "tpcb-like", "tpcb-pipelined", "oltp_read_write"]

OLTP_TABLES, OLTP_ROWS = 4, 100_000
"""Of dataset sbtest, which sysbench's own script works on. Rows are drawn uniformly: with sysbench's
default, three quarters of them from a hundredth of the rows, transactions wait for each other's locks."""


WARMUP_S = 2
"""Servers and schedulers are faster or slower in a load's first seconds."""


class NotReportedError(Exception):
    """A peer printed too few of its reports, in each attempt."""


@dataclass(frozen=True)
class Limit:
    """When a load ends."""

    seconds: int
    transactions: int | None = None
    """Of each client; takes the place of `seconds`."""

    def option(self) -> str:
        """As pgbench has it."""
        return f"--time={self.seconds}" if self.transactions is None else f"--transactions={self.transactions}"


@dataclass(frozen=True)
class Load:
    """What one program is to do."""

    program: Kind
    workload: Workload
    clients: int
    limit: Limit
    scale: int
    """Of pgbench's tables."""
    jobs: int | None = 1
    """Threads of pgdrive and pgbench; None: as many as pgdrive chooses."""
    warmup_s: int = 0
    """Before it is measured. pgdrive leaves it out itself; of a peer the later seconds that it reports count."""


@dataclass(frozen=True)
class Sample:
    """One run of one program."""

    tps: float
    cpu_us: float
    """User and system time of the process, a transaction."""
    connect_ms: float | None
    """From the first connection to the last, as the program says; sysbench does not."""
    peak_bytes: int
    """Most memory that was resident at once (VmHWM)."""
    p95_ms: float | None = None
    """Of the transactions; of Lua scripts alone."""
    threads: int | None = None
    """As the program says; sysbench has one a client."""


@dataclass(frozen=True)
class Programs:
    """Where the programs are."""

    pgdrive: str
    pgbench: str
    sysbench: str | None
    bare_loop: str | None

    @classmethod
    def find(cls, pgbench: str | None) -> Programs:
        """The engine of this checkout, pgbench and sysbench on the PATH; ends without a pgbench."""
        pgbench = pgbench or shutil.which("pgbench")
        if pgbench is None:
            sys.exit("pgbench is not installed: run `make bench-packages`, or name one with --pgbench")
        bare_loop = str(BARE_LOOP) if BARE_LOOP.is_file() else None
        return cls(str(find_engine().path), pgbench, shutil.which("sysbench"), bare_loop)

    def versions(self) -> dict[str, str]:
        """What each says of itself."""
        return {
            name: subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout.strip()
            for name, path in vars(self).items()
            if path is not None and name != "bare_loop"
        }

    def command(self, load: Load, environment: Mapping[str, str]) -> list[str]:
        """Its command line for `load`."""
        if load.program == "sysbench":
            return self._sysbench(load, environment)
        if load.program == "bare_loop":
            assert self.bare_loop is not None
            return [self.bare_loop, load.workload, str(load.clients), str(load.limit.seconds), str(load.scale)]
        path = self.pgdrive if load.program == "pgdrive" else self.pgbench
        threads = [] if load.jobs is None else [f"--jobs={load.jobs}"]
        if load.program == "pgdrive":
            limit, warmup = load.limit.option(), [f"--warmup={load.warmup_s}"] if load.warmup_s else []
        else:
            limit, warmup = _with_warmup(load).option(), ["--progress=1"] if load.warmup_s else []
        if load.workload == "oltp_read_write":
            named = {"tables": OLTP_TABLES, "table-size": OLTP_ROWS, "rand-type": "uniform"}
            given = [f"--lua-opt={name}={value}" for name, value in named.items()]
            lua = ["--lua=oltp_read_write", *given, f"--client={load.clients}", limit]
            return [path, *threads, *warmup, *lua]
        what = {
            "select-only": ["--builtin=select-only"],
            "tpcb-like": ["--builtin=tpcb-like"],
            "tpcb-pipelined": [f"--file={SCRIPTS / 'tpcb-pipelined.sql'}", f"--define=scale={load.scale}"],
        }[load.workload]
        fixed = [path, "--no-vacuum", "--protocol=prepared", *threads, *warmup]
        return [*fixed, f"--client={load.clients}", limit, *what]

    def _sysbench(self, load: Load, environment: Mapping[str, str]) -> list[str]:
        assert self.sysbench is not None
        where = {name: environment[f"PG{name.upper()}"] for name in ("host", "port", "user")}
        script, options = {
            "select-only": (str(SCRIPTS / "select_only.lua"), [f"--scale={load.scale}"]),
            "oltp_read_write": (
                "oltp_read_write",
                [f"--tables={OLTP_TABLES}", f"--table-size={OLTP_ROWS}", "--rand-type=uniform"],
            ),
        }[load.workload]
        return [
            self.sysbench,
            script,
            "--db-driver=pgsql",
            *(f"--pgsql-{name}={value}" for name, value in where.items()),
            f"--pgsql-db={environment['PGDATABASE']}",
            f"--threads={load.clients}",
            f"--time={_with_warmup(load).seconds}",
            *(["--report-interval=1"] if load.warmup_s else []),
            *options,
            "run",
        ]

    def run(self, load: Load, environment: Mapping[str, str]) -> Sample:
        """Runs one load. CPU time is wait4's: all of the process, its start and its connecting too."""
        for _ in range(ATTEMPTS):
            done = run_measured(self.command(load, environment), environment)
            sample = sample_of(load.program, done.out, done.cpu_s, done.peak_bytes)
            if not load.warmup_s or load.program == "pgdrive":
                return sample
            tps = _rate_after(load.warmup_s, load.limit.seconds, done.out + done.err)
            if tps is not None:
                return replace(sample, tps=tps)
        raise NotReportedError(f"no report of {load.limit.seconds} s after {load.warmup_s} s in:\n{done.out}{done.err}")


def _with_warmup(load: Load) -> Limit:
    return Limit(load.warmup_s + load.limit.seconds, load.limit.transactions)


def _rate_after(warmup_s: int, seconds: int, text: str) -> float | None:
    """Mean of a peer's reports after the warm-up; None if they are of less than `seconds` - 1.

    Each report is of the time since the one before it: with many clients, sysbench prints none for some seconds.
    """
    reports = re.findall(r"^progress: ([\d.]+) s, ([\d.]+) tps|^\[ (\d+)s \] .* tps: ([\d.]+)", text, re.MULTILINE)
    transactions, before_s = 0.0, float(warmup_s)
    for pgbench_s, pgbench_tps, sysbench_s, sysbench_tps in reports:
        at_s = float(pgbench_s or sysbench_s)
        if before_s < at_s < warmup_s + seconds + 0.5:
            transactions += (at_s - before_s) * float(pgbench_tps or sysbench_tps)
            before_s = at_s
    measured_s = before_s - warmup_s
    return transactions / measured_s if measured_s >= seconds - 1 else None


def sample_of(program: Kind, text: str, cpu_s: float, peak_bytes: int) -> Sample:
    """What a program printed, with what it cost."""
    p95 = re.search(r"95th percentile\s*[:=]\s*([\d.]+)", text)
    p95_ms = float(p95[1]) if p95 else None
    if program == "sysbench":
        transactions, tps = _find(r"transactions:\s+(\d+)\s+\(([\d.]+) per sec", text)
        return Sample(tps, cpu_s * 1e6 / transactions, None, peak_bytes, p95_ms)
    (transactions,) = _find(r"actually processed: (\d+)", text)
    (tps,) = _find(r"tps = ([\d.]+)", text)
    (connect_ms,) = _find(r"initial connection time = ([\d.]+) ms", text)
    # the bare loop has one thread and does not report it
    threads = re.search(r"number of threads: (\d+)", text)
    return Sample(tps, cpu_s * 1e6 / transactions, connect_ms, peak_bytes, p95_ms, int(threads[1]) if threads else None)


def _find(pattern: str, text: str) -> tuple[float, ...]:
    found = re.search(pattern, text)
    if found is None:
        sys.exit(f"nothing like {pattern!r} in:\n{text}")
    return tuple(float(group) for group in found.groups())
