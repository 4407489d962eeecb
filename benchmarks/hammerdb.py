"""HammerDB's TPROC-C and pgdrive's, in turn on one server: throughput, client CPU, and what the server does for it.

HammerDB is used as released; only its Pgtcl may be another one (benchmarks/README.md). Each has its own tables, loaded
by itself, and each run has a fresh copy of them. What the server did is the difference of its statistics before and
after the process, by transaction, with the CPU time of its backends. Full pages in the WAL and autovacuum are off: both
depend on how long ago something happened, not on the transaction.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypedDict

from measured import Measured, process_ticks, run_measured
from places import fresh_copy
from psycopg import sql

from pgdyno.records.tpcc_profile import profile_of_release
from pgdyno.targets import Server

SCRIPTS = Path(__file__).parent / "scripts" / "hammerdb"
TABLES = ("history", "new_order", "order_line", "orders")
"""Those whose number of rows changes."""
WORK = ("tup_inserted", "tup_updated", "tup_deleted", "tup_fetched", "tup_returned", "wal_records", "wal_bytes")
SETTINGS = {"autovacuum": "off", "full_page_writes": "off"}
CPU_GOAL = 0.35
DATABASE = "compared"

Program = Literal["hammerdb", "pgdrive"]
PROGRAMS: tuple[Program, Program] = ("hammerdb", "pgdrive")


class Row(TypedDict):
    """One run of one program, or the medians of several."""

    program: str
    users: int
    nopm: float
    """As HammerDB prints it, and by pgdrive's count of the server's sum(d_next_o_id)."""
    tpm: float
    client_cpu_us: float
    """A New-Order, of the process from its start to its end."""
    server_cpu_us: float
    """A transaction, of all backends."""
    work: dict[str, float]
    """A transaction, from pg_stat_database and pg_stat_wal."""
    rows: dict[str, float]
    """That each table gained, by a thousand transactions."""
    mix: dict[str, float]
    """Percent of the transactions that the rows show; the two that only read are one."""


@dataclass(frozen=True)
class Counted:
    """The server's counts at a moment."""

    orders: int
    transactions: int
    backends_s: float
    work: dict[str, float]
    rows: dict[str, int]


@dataclass(frozen=True)
class Comparison:
    """One server, and both programs."""

    server: Server
    pgdrive: str
    folder: Path
    tclsh: str
    args: argparse.Namespace

    @property
    def version(self) -> str:
        """HammerDB's, as its command line has it."""
        found = re.search(r'set hdb_version "v([\d.]+)"', (self.folder / "hammerdbcli").read_text())
        return found[1] if found else "unknown"

    @property
    def profile(self) -> str:
        """pgdrive's for this version."""
        return profile_of_release(self.version) or "hammerdb"

    def load(self) -> dict[Program, float]:
        """Each loads its own tables; returns the seconds that this took."""
        load = {"HAMMERDB_WAREHOUSES": str(self.args.warehouses), "HAMMERDB_USERS": "1"}
        took: dict[Program, float] = {"hammerdb": self._hammerdb("hammerdb", load).wall_s}
        with self.server.connect("postgres") as connection:
            connection.execute("CREATE DATABASE pgdrive")
        size = [f"--warehouses={self.args.warehouses}", f"--tpcc-profile={self.profile}"]
        took["pgdrive"] = self._pgdrive("pgdrive", ["-i", "-q", "--dataset=tpcc", *size]).wall_s
        for database in PROGRAMS:
            with self.server.connect(database) as connection:
                connection.execute("VACUUM (FREEZE, ANALYZE)")
        return took

    def run(self, program: Program, users: int) -> Row:
        """One run on a fresh copy."""
        fresh_copy(self.server, DATABASE, program)
        rows = self._rows()
        before = self._counted(rows)
        done = self._run_hammerdb(users) if program == "hammerdb" else self._run_pgdrive(users)
        after = self._counted({})
        return self._row(program, users, done, before, after, self._rows())

    def _row(
        self, program: Program, users: int, done: Measured, before: Counted, after: Counted, rows: dict[str, int]
    ) -> Row:
        transactions, orders = after.transactions - before.transactions, after.orders - before.orders
        gained = {name: rows[name] - before.rows[name] for name in TABLES}
        deliveries = (gained["orders"] - gained["new_order"]) / 10
        kinds = {"New-Order": gained["orders"], "Payment": gained["history"], "Delivery": deliveries}
        kinds["Order-Status, Stock-Level"] = transactions - sum(kinds.values())
        nopm, tpm = _hammerdb_rates(done) if program == "hammerdb" else _pgdrive_rates(done)
        return Row(
            program=program,
            users=users,
            nopm=nopm,
            tpm=tpm,
            client_cpu_us=done.cpu_s * 1e6 / orders,
            server_cpu_us=(after.backends_s - before.backends_s) * 1e6 / transactions,
            work={name: (after.work[name] - before.work[name]) / transactions for name in WORK},
            rows={name: 1_000 * gained[name] / transactions for name in TABLES},
            mix={name: 100 * count / transactions for name, count in kinds.items()},
        )

    def _run_hammerdb(self, users: int) -> Measured:
        times = {"HAMMERDB_RAMPUP_MINUTES": str(self.args.rampup), "HAMMERDB_MINUTES": str(self.args.minutes)}
        return self._hammerdb(DATABASE, {"HAMMERDB_USERS": str(users), **times})

    def _run_pgdrive(self, users: int) -> Measured:
        times = [f"--warmup={60 * self.args.rampup}"] if self.args.rampup else []
        times.append(f"--time={60 * self.args.minutes}")
        variant = f"--tpcc-variant={self.args.routines}"
        # a copy of a database has no comment that would say what it was loaded with
        load = ["--workload=tpcc", variant, f"--tpcc-profile={self.profile}", f"--warehouses={self.args.warehouses}"]
        return self._pgdrive(DATABASE, [*load, f"--client={users}", *times, "--events=-"])

    def _pgdrive(self, database: str, options: list[str]) -> Measured:
        return run_measured([self.pgdrive, *options], {**self.server.environment(), "PGDATABASE": database})

    def _hammerdb(self, database: str, values: dict[str, str]) -> Measured:
        packages = f"{{{SCRIPTS}}} {os.environ.get('TCLLIBPATH', '')}"
        procedures = str(self.args.routines == "procedures").lower()
        # HammerDB finds its own modules in the working folder, and keeps its settings in that of temporary files
        script = f'cd "$1" && exec "$2" ./hammerdbcli tcl auto "{SCRIPTS}/run.tcl"'
        command = ["sh", "-c", script, "sh", str(self.folder), self.tclsh]
        with tempfile.TemporaryDirectory(prefix="hammerdb-") as folder:
            environment = {
                **self.server.environment(),
                "PGDATABASE": database,
                "TMP": folder,
                "TCLLIBPATH": packages,
                "HAMMERDB_PROCEDURES": procedures,
                **values,
            }
            done = run_measured(command, environment)
        if "FINISHED FAILED" in done.out or "ALL VIRTUAL USERS COMPLETE" not in done.out:
            sys.exit(f"HammerDB failed:\n{done.out[-4_000:]}{done.err}")
        return done

    def _rows(self) -> dict[str, int]:
        with self.server.connect(DATABASE) as connection:
            counts = (
                connection.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(name))) for name in TABLES
            )
            return {name: int((count.fetchone() or (0,))[0]) for name, count in zip(TABLES, counts, strict=True)}

    def _counted(self, rows: dict[str, int]) -> Counted:
        # sessions report their statistics when they end, and the postmaster then takes over their CPU time
        time.sleep(2)
        names = ", ".join(WORK)
        with self.server.connect(DATABASE) as connection:
            row = connection.execute(
                "SELECT (SELECT sum(d_next_o_id) FROM district), xact_commit + xact_rollback, "
                f"{names} FROM pg_stat_database, pg_stat_wal WHERE datname = current_database()"
            ).fetchone()
            folder = connection.execute("SHOW data_directory").fetchone()
        assert row is not None
        assert folder is not None
        postmaster = int(Path(folder[0], "postmaster.pid").read_text().splitlines()[0])
        backends_s = sum(process_ticks(postmaster)[2:]) / os.sysconf("SC_CLK_TCK")
        work = {name: float(value) for name, value in zip(WORK, row[2:], strict=True)}
        return Counted(int(row[0]), int(row[1]), backends_s, work, rows)


def _shares(row: Row) -> str:
    """Where a user's time for a New-Order goes, with the 1.3 transactions that come with it; explains its rate."""
    elapsed_us = row["users"] * 60e6 / row["nopm"]
    server_us = row["server_cpu_us"] * row["tpm"] / row["nopm"]
    waiting_us = elapsed_us - row["client_cpu_us"] - server_us
    return (
        f"a user's {elapsed_us:.0f} us for a New-Order: client CPU {row['client_cpu_us']:.0f}, server CPU "
        f"{server_us:.0f}, waiting {waiting_us:.0f}"
    )


def _hammerdb_rates(done: Measured) -> tuple[float, float]:
    found = re.search(r"System achieved (\d+) NOPM from (\d+) PostgreSQL TPM", done.out)
    if found is None:
        sys.exit(f"HammerDB printed no result:\n{done.out[-4_000:]}")
    return float(found[1]), float(found[2])


def _pgdrive_rates(done: Measured) -> tuple[float, float]:
    server = json.loads(done.out.splitlines()[-1])["tpcc"]["server"]
    return server["nopm"], server["tpm"]


def median_row(rows: list[Row]) -> Row:
    """The medians of several runs."""

    def medians(each: list[dict[str, float]]) -> dict[str, float]:
        return {name: round(statistics.median(one[name] for one in each), 3) for name in each[0]}

    return Row(
        program=rows[0]["program"],
        users=rows[0]["users"],
        nopm=round(statistics.median(row["nopm"] for row in rows), 1),
        tpm=round(statistics.median(row["tpm"] for row in rows), 1),
        client_cpu_us=round(statistics.median(row["client_cpu_us"] for row in rows), 1),
        server_cpu_us=round(statistics.median(row["server_cpu_us"] for row in rows), 1),
        work=medians([row["work"] for row in rows]),
        rows=medians([row["rows"] for row in rows]),
        mix=medians([row["mix"] for row in rows]),
    )


def compare(server: Server, pgdrive: str, args: argparse.Namespace) -> dict[str, object]:
    """Loads, runs both in turn, prints a table; returns what the result file contains."""
    folder, tclsh = Path(args.hammerdb), shutil.which(args.tclsh)
    if tclsh is None or not (folder / "hammerdbcli").is_file():
        sys.exit(f"no hammerdbcli in {folder}, or no {args.tclsh}: benchmarks/README.md says what HammerDB needs")
    comparison = Comparison(server, pgdrive, folder, tclsh, args)
    print(f"HammerDB {comparison.version}, pgdrive with profile {comparison.profile}, {args.routines}")
    took = comparison.load()
    print(f"{args.warehouses} warehouses loaded by one user in {took['hammerdb']:.1f} s and {took['pgdrive']:.1f} s")
    rounds: dict[tuple[int, Program], list[Row]] = {}
    for turn in range(args.rounds):
        for users in args.users:
            for program in PROGRAMS if turn % 2 == 0 else reversed(PROGRAMS):
                row = comparison.run(program, users)
                rounds.setdefault((users, program), []).append(row)
                print(json.dumps(row), flush=True)
    medians = {key: median_row(rows) for key, rows in rounds.items()}
    for users in args.users:
        theirs, ours = (medians[users, program] for program in PROGRAMS)
        ratio = ours["client_cpu_us"] / theirs["client_cpu_us"]
        print(f"{users} users: NOPM {theirs['nopm']:,.0f} and {ours['nopm']:,.0f}, {ours['nopm'] / theirs['nopm']:.3f}")
        print(
            f"  client CPU a New-Order {theirs['client_cpu_us']:.0f} and {ours['client_cpu_us']:.0f} us: {ratio:.2f} "
            f"(goal {CPU_GOAL}: {'reached' if ratio <= CPU_GOAL else 'NOT REACHED'})"
        )
        print(f"  server CPU a transaction {theirs['server_cpu_us']:.0f} and {ours['server_cpu_us']:.0f} us")
        for row in (theirs, ours):
            print(f"  {row['program']}: {_shares(row)}")
        for title in ("work", "rows", "mix"):
            for name, value in theirs[title].items():
                print(f"  {title} {name:28}{value:>12,.2f}{ours[title][name]:>12,.2f}")
    return {
        "hammerdb": comparison.version,
        "profile": comparison.profile,
        "routines": args.routines,
        "load_s": took,
        "rows": list(medians.values()),
    }
