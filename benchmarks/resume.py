"""A load that is killed again and again, and goes on, beside one that nothing disturbs: is the end the same?

Both load pgbench's tables into a database of their own on one embedded server. The second is broken off at random
moments, by SIGKILL of pgdrive and once by an immediate shutdown of the server (which then recovers from its WAL),
and goes on with --resume. Then rows are compared by a hash of all rows of a table in the order of their keys,
the catalogs column by column and index by index, and the marks. It ends with exit code 1 if anything differs.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any, LiteralString

import psycopg
from psycopg import sql

from pgdyno.programs import find_engine
from pgdyno.targets import Home, Server, SilentProgress, open_target
from pgdyno.targets.embedded.schema import EmbeddedTarget

KEYS = {"pgbench_branches": "bid", "pgbench_tellers": "tid", "pgbench_accounts": "aid", "pgbench_history": "mtime"}
ROWS_A_SCALE = 100_011
"""Of all tables."""
GROUP = 100_000
"""Rows are hashed in groups of so many keys, and the groups' hashes again: no value gets too long."""

CATALOG: dict[str, LiteralString] = {
    "relations": """
        SELECT relname, relkind, relpersistence, reloptions, reltablespace, relnatts, relispartition,
               pg_get_partkeydef(oid), pg_get_expr(relpartbound, oid)
        FROM pg_class WHERE relnamespace = 'public'::regnamespace ORDER BY relname""",
    "columns": """
        SELECT attrelid::regclass::text, attnum, attname, format_type(atttypid, atttypmod), attnotnull, atthasdef,
               attstorage, attcollation
        FROM pg_attribute JOIN pg_class c ON c.oid = attrelid
        WHERE relnamespace = 'public'::regnamespace AND attnum > 0 ORDER BY 1, 2""",
    "indexes": "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1, 2",
    "constraints": """
        SELECT conrelid::regclass::text, conname, contype, convalidated, pg_get_constraintdef(oid)
        FROM pg_constraint WHERE connamespace = 'public'::regnamespace ORDER BY 1, 2""",
    "schemas": "SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' ORDER BY 1",
    "rows by the planner": """
        SELECT relname, reltuples FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relname <> 'pgbench_accounts' ORDER BY 1""",
    "frozen and all-visible": """
        SELECT relname, relallvisible = relpages, relallfrozen = relpages FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' ORDER BY 1""",
}


@dataclass(frozen=True)
class Loader:
    """A database, and how it is loaded."""

    server: Server
    database: str
    options: list[str]

    def connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        """To the database."""
        return self.server.connect(self.database)

    def start(self, *more: str) -> subprocess.Popen[str]:
        """Begins, or goes on with --resume."""
        environment = {**os.environ, **self.server.environment(), "PGDATABASE": self.database}
        command = [str(find_engine().path), "-i", "-q", *self.options, *more]
        return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)

    def load(self, *more: str) -> tuple[float, str]:
        """To its end: seconds, and its last line. One that fails ends all."""
        started = time.monotonic()
        process = self.start(*more)
        said = process.communicate()[1]
        if process.returncode != 0:
            sys.exit(f"pgdrive failed: {said}")
        return time.monotonic() - started, said.strip().splitlines()[-1]

    def committed(self) -> tuple[int, int] | None:
        """Chunks and rows that the ledger knows; None when there is no ledger."""
        with self.connect() as connection:
            try:
                row = connection.execute(
                    "SELECT count(*) FILTER (WHERE rows > 0), coalesce(sum(rows), 0)::bigint FROM pgdyno_load.done"
                ).fetchone()
            except psycopg.errors.UndefinedTable:
                return None
        assert row is not None
        return row[0], row[1]


def fingerprint(loader: Loader) -> dict[str, Any]:
    """Everything that must be the same."""
    found: dict[str, Any] = {}
    with loader.connect() as connection:
        for table, key in KEYS.items():
            group = sql.SQL("0") if table == "pgbench_history" else sql.SQL("({} - 1) / {}")
            row = connection.execute(
                sql.SQL(
                    "SELECT coalesce(sum(n), 0)::bigint, md5(coalesce(string_agg(hash, '' ORDER BY g), '')) FROM ("
                    "SELECT {} AS g, count(*) AS n, md5(string_agg(t::text, E'\\n' ORDER BY {})) AS hash"
                    " FROM {} t GROUP BY 1) groups"
                ).format(
                    group.format(sql.Identifier(key), sql.Literal(GROUP)), sql.Identifier(key), sql.Identifier(table)
                )
            ).fetchone()
            assert row is not None
            found[table] = f"{row[0]:,} rows, {row[1]}"
        for name, statement in CATALOG.items():
            found[name] = connection.execute(statement).fetchall()
        comment = connection.execute(
            "SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = current_database()"
        ).fetchone()
    assert comment is not None
    mark = json.JSONDecoder().raw_decode(comment[0].split("[pgdyno-dataset ", 1)[1])[0]
    found["mark"] = {name: value for name, value in mark.items() if name not in ("tables", "loaded_at")}
    found["mark's counts"] = [(table["name"], table["rows"]) for table in mark["tables"]]
    return found


def crash(server: Server) -> None:
    """An immediate shutdown, and a start that recovers."""
    postmaster = int((server.data_directory / "postmaster.pid").read_text().split()[0])
    os.kill(postmaster, signal.SIGQUIT)
    while server.alive():
        time.sleep(0.02)
    server.restart()


@dataclass(frozen=True)
class Break:
    """When and how a load is broken off."""

    share: float
    """Of all rows: so many must be committed first; 1 is in the midst of vacuums and keys."""
    pause_s: float
    """After that."""
    crash: bool
    """Whether the server goes down, not the client alone."""


def draw_breaks(count: int, draw: random.Random) -> list[Break]:
    """Breaks at random moments from the first row to the keys; the server goes down at one of them."""
    shares = [0.0, *sorted(draw.uniform(0, 0.95) for _ in range(count - 2)), 1.0][:count]
    crash_at = draw.randrange(count)
    return [Break(share, draw.uniform(0.05, 0.5), number == crash_at) for number, share in enumerate(shares)]


def broken_load(loader: Loader, rows: int, breaks: list[Break]) -> None:
    """Loads; breaks off at each of `breaks` and goes on."""
    more: tuple[str, ...] = ()
    for each in breaks:
        started = time.monotonic()
        process = loader.start(*more)
        while process.poll() is None and (loader.committed() or (0, -1))[1] < each.share * rows:
            time.sleep(0.02)
        time.sleep(each.pause_s)
        if process.poll() is not None:
            sys.exit(f"the load was over before it was broken off: {process.communicate()[1]}")
        if each.crash:
            crash(loader.server)
        else:
            process.kill()
        process.communicate()
        there = loader.committed()
        state = "no ledger yet" if there is None else f"{there[0]} chunks with {there[1]:,} rows committed"
        how = "server shut down at once" if each.crash else "SIGKILL"
        print(f"  {time.monotonic() - started:5.2f} s  {how:26}{state}", flush=True)
        more = ("--resume",) if there is not None else ()
    seconds, said = loader.load(*more)
    print(f"  {seconds:5.2f} s  to the end: {said}")


def compare(unbroken: dict[str, Any], broken: dict[str, Any]) -> bool:
    """Prints what was compared; whether all of it is the same."""
    for name, value in unbroken.items():
        same = broken[name] == value
        shown = value if isinstance(value, str) else f"{len(value)} entries"
        print(f"  {name:24} {shown:52} {'the same' if same else 'DIFFERENT'}")
        if not same:
            print(f"    unbroken: {value}\n    broken:   {broken[name]}")
    return unbroken == broken


def main() -> None:
    """Loads both, compares them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=int, default=100)
    parser.add_argument("--breaks", type=int, default=6, help="how often the second load is broken off, at least 2")
    parser.add_argument("--seed", type=int, help="of the moments; drawn and said unless given")
    parser.add_argument("options", nargs="*", help="further options of pgdrive -i, behind --")
    args = parser.parse_args()
    seed = args.seed if args.seed is not None else random.SystemRandom().randrange(10**6)
    draw = random.Random(seed)
    options = ["-s", str(args.scale), *args.options]
    print(f"pgdrive -i {' '.join(options)}; seed {seed}")
    spec = EmbeddedTarget(kind="embedded", version="18", settings={"shared_buffers": "512MB"})
    with open_target("resume", spec, home=Home.locate(), progress=SilentProgress()) as server:
        loaders = [Loader(server, name, options) for name in ("unbroken", "broken")]
        with server.connect() as connection:
            for loader in loaders:
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(loader.database)))
        whole_s, said = loaders[0].load()
        print(f"unbroken:\n  {whole_s:5.2f} s  {said}\nbroken off:")
        rows = args.scale * ROWS_A_SCALE
        broken_load(loaders[1], rows, draw_breaks(args.breaks, draw))
        print("compared:", flush=True)
        same = compare(*(fingerprint(loader) for loader in loaders))
    print("equal" if same else "NOT EQUAL")
    sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()
