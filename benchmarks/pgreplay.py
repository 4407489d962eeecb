"""`pgdrive --replay` beside pgreplay: both replay the log of one load, in turn, on copies of one database.

The server logs what both need (`log_statement = all` and durations, a prefix that pgreplay reads). Its log of each
replay shows what arrived: statements that are missing or surplus, with their parameters, and how far the n-th statement
began from where the n-th of the load did.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from typing import TypedDict

from measured import run_measured

from pgdyno.capture.logs.capture_logs import Options, capture_logs
from pgdyno.capture.replay_file import write_replay_file
from pgdyno.programs import find_engine
from pgdyno.records.capture import STATEMENTS_FILE, Values
from pgdyno.store.duckdb_session import connect, quote_text
from pgdyno.targets import Home, Server, SilentProgress, open_target
from pgdyno.targets.embedded.schema import EmbeddedTarget

RESULT = Path(__file__).parent / "results" / "pgreplay.json"
VERSION = "15"
"""pgreplay 1.2 does not read the parameters in a log of PostgreSQL 18."""
PREFIX = "%m|%u|%d|%c|"
SETTINGS = {
    "shared_buffers": "256MB",
    "log_statement": "all",
    "log_duration": "on",
    "log_line_prefix": PREFIX,
    "log_connections": "on",
    "log_disconnections": "on",
}
MOST_CPU_S = 30
"""pgreplay sometimes spins for ever."""
DATABASE, TEMPLATE = "replayed", "replayed_base"


class Compared(TypedDict):
    """What arrived at the server."""

    statements: int
    missing: int
    surplus: int
    late_p50_ms: float
    late_p99_ms: float


class Row(Compared):
    """One replay of the log."""

    program: str
    cpu_us: float
    """A statement."""
    peak_bytes: int


OWN = "show server_encoding"
"""What pgdrive asks before a replay."""
FIGURES = ("statements", "missing", "surplus", "late_p50_ms", "late_p99_ms", "cpu_us", "peak_bytes")


def restored(server: Server) -> dict[str, str]:
    """Makes the database anew; returns how to reach it."""
    with server.connect() as connection:
        connection.autocommit = True
        connection.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
        connection.execute(f"CREATE DATABASE {DATABASE} TEMPLATE {TEMPLATE}")
    return {**server.environment(), "PGDATABASE": DATABASE}


def logged(server: Server, before: int, into: Path) -> Path:
    """Copies what the server has logged since its log had `before` bytes."""
    with server.log_path.open("rb") as file:
        file.seek(before)
        into.write_bytes(file.read())
    return into


def captured(log: Path, folder: Path) -> Path:
    """Captures the statements of a log; returns their table."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    found = capture_logs([log], folder, Options(values=Values.KEPT, prefix=PREFIX, database=DATABASE))
    write_replay_file(folder, found, folder / "replay.jsonl")
    return folder / STATEMENTS_FILE


def compared(load: Path, replay: Path) -> Compared:
    """What the replay did other than the load."""
    with connect() as connection:
        for name, path in (("load", load), ("replay", replay)):
            connection.execute(
                f"CREATE TABLE {name} AS SELECT at_us - min(at_us) OVER () AS at_us, concat(rtrim(sql, '; '), "
                f"parameters::VARCHAR) AS what FROM read_parquet({quote_text(str(path))})"
                f" WHERE sql IS NOT NULL AND sql <> {quote_text(OWN)}"
            )
        counts = "(SELECT what, count(*) AS n FROM {} GROUP BY what)"
        row = connection.execute(
            "SELECT coalesce(sum(greatest(coalesce(l.n, 0) - coalesce(r.n, 0), 0)), 0), "
            "coalesce(sum(greatest(coalesce(r.n, 0) - coalesce(l.n, 0), 0)), 0) "
            f"FROM {counts.format('load')} l FULL JOIN {counts.format('replay')} r USING (what)"
        ).fetchone()
        place = "(SELECT at_us, row_number() OVER (ORDER BY at_us) AS place FROM {})"
        late = connection.execute(
            "SELECT quantile_cont(abs(r.at_us - l.at_us), [0.5, 0.99]) "
            f"FROM {place.format('load')} l JOIN {place.format('replay')} r USING (place)"
        ).fetchone()
        (count,) = connection.execute("SELECT count(*) FROM replay").fetchone() or (0,)
    assert row is not None
    assert late is not None
    p50, p99 = late[0] or (0, 0)
    return Compared(
        statements=count, missing=int(row[0]), surplus=int(row[1]), late_p50_ms=p50 / 1e3, late_p99_ms=p99 / 1e3
    )


def main() -> None:
    """Measures, prints, and writes results/pgreplay.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=50, help="transactions per second, of seven statements each")
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULT, help=f"default: {RESULT.name} in results/")
    args = parser.parse_args()
    pgreplay, pgdrive = shutil.which("pgreplay"), str(find_engine().path)
    if pgreplay is None:
        parser.error("pgreplay is not installed: `apt install pgreplay`")
    spec = EmbeddedTarget(kind="embedded", version=VERSION, settings=SETTINGS)
    rows: list[Row] = []
    unfinished = Counter[str]()
    with (
        tempfile.TemporaryDirectory(prefix="pgreplay-") as name,
        open_target("pgreplay", spec, home=Home.locate(), progress=SilentProgress()) as server,
    ):
        folder = Path(name)
        with server.connect() as connection:
            connection.autocommit = True
            connection.execute(f"CREATE DATABASE {TEMPLATE}")
        environment = {**os.environ, **server.environment(), "PGDATABASE": TEMPLATE}
        subprocess.run([pgdrive, "-i", "-q", "-s", "5"], env=environment, check=True, stderr=subprocess.DEVNULL)
        before = server.log_size()
        run_measured(
            [pgdrive, "-n", "-c", "8", "-R", str(args.rate), "-T", str(args.seconds), "-M", "prepared"],
            restored(server),
        )
        log = logged(server, before, folder / "load.log")
        load = captured(log, folder / "load")
        commands = {
            "pgdrive": [pgdrive, "-n", f"--replay={folder / 'load' / 'replay.jsonl'}"],
            "pgreplay": ["prlimit", f"--cpu={MOST_CPU_S}", pgreplay, str(log)],
        }
        for round_number in range(args.rounds):
            for program in sorted(commands, reverse=bool(round_number % 2)):
                environment = restored(server)
                before = server.log_size()
                try:
                    done = run_measured(commands[program], environment)
                except SystemExit as error:
                    print(f"{program} did not end: {error}")
                    unfinished[program] += 1
                    continue
                replay = captured(logged(server, before, folder / "replay.log"), folder / "replay")
                found = compared(load, replay)
                cpu_us = done.cpu_s * 1e6 / max(found["statements"], 1)
                rows.append(Row(program=program, **found, cpu_us=cpu_us, peak_bytes=done.peak_bytes))
                print(json.dumps(rows[-1]))
    medians: dict[str, dict[str, float]] = {
        program: {
            name: statistics.median(row[name] for row in rows if row["program"] == program)  # type: ignore[literal-required]
            for name in FIGURES
        }
        for program in {row["program"] for row in rows}
    }
    print(json.dumps({"medians": medians, "unfinished": unfinished}, indent=2))
    args.out.parent.mkdir(exist_ok=True)
    args.out.write_text(json.dumps({"rows": rows, "medians": medians, "unfinished": unfinished}, indent=2) + "\n")


if __name__ == "__main__":
    main()
