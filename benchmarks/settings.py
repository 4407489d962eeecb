"""Searches for settings with one planted bad setting among five that cannot matter, on a real PostgreSQL 18.

    python benchmarks/settings.py [--plant=NAME,...] [--searches=5] [--trials=28] [--seconds=4] [--pairs=8] [--out=FILE]

Each search starts anew, with another seed. A planted setting starts with a value that is bad for its load (`PLANTED`).
`none` plants nothing: there, six settings cannot matter. Those concern standbys, replication slots, logging of slow
statements, JIT costs and freezing, which no load reaches. Prints for each search what was confirmed, and which lines
stayed. Right is a search that keeps the planted setting and no other one, or none without a planted one.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from pgdyno.records import SearchRecord
from pgdyno.store import RunFolder


@dataclass(frozen=True, slots=True)
class Planted:
    """A setting that starts with a bad value, and a load for which it is bad."""

    start: str
    over: str
    script: str
    scale: int = 1


ROWS = 100_000
"""Of pgbench_accounts at scale 1: 13 MB, which the operating system caches."""
PLANTED = {
    # the planner reads the whole table instead of using its index
    "random_page_cost": Planted(
        "10000",
        "1..10000 log",
        rf"""\set aid random(1, {ROWS})
SELECT abalance FROM pgbench_accounts WHERE aid BETWEEN :aid AND :aid + 20;
""",
    ),
    # the subquery's rows do not fit into a hash table, so each row is compared with all of them, in a temporary file
    "work_mem": Planted(
        "64kB",
        "64kB..64MB log",
        rf"""\set start random(1, {ROWS - 6000})
SELECT count(*) FROM pgbench_accounts WHERE aid BETWEEN :start AND :start + 200 AND aid NOT IN (
    SELECT aid FROM pgbench_accounts WHERE aid BETWEEN :start + 100 AND :start + 6000
);
""",
    ),
    # 16 buffers: nearly each page comes from the operating system, through system calls
    "shared_buffers": Planted(
        "128kB",
        "128kB..256MB log",
        rf"""\set start random(1, {ROWS})
SELECT sum(abalance) FROM generate_series(1, 1000) AS i CROSS JOIN LATERAL (
    SELECT abalance FROM pgbench_accounts WHERE aid = 1 + (:start + i * 7919) % {ROWS} OFFSET 0
) AS found;
""",
    ),
    # a checkpoint every 16 MB of WAL, after which each changed page is written to WAL as a whole again: of 16,000
    # pages, nearly each row's is another one
    "max_wal_size": Planted(
        "32MB",
        "32MB..8GB log",
        rf"""\set start random(1, {10 * ROWS})
UPDATE pgbench_accounts SET abalance = abalance + 1
WHERE aid = ANY(ARRAY(SELECT 1 + (:start + i * 79193) % {10 * ROWS} FROM generate_series(1, 100) AS i));
""",
        scale=10,
    ),
}
NONE = "none"
IRRELEVANT = {
    "wal_sender_timeout": "10s..600s log",
    "wal_receiver_timeout": "10s..600s log",
    "log_min_duration_statement": "10s..600s log",
    "jit_above_cost": "1000000..9000000",
    "max_slot_wal_keep_size": "1GB..64GB log",
}
SIXTH = {"vacuum_failsafe_age": "1000000000..2000000000"}
"""In place of a planted setting."""

PLAN = """
name = "planted"
[target.pg18]
kind = "embedded"
version = "18"
[workload]
scripts = ["load.sql"]
scale = {scale}
[reset]
prewarm = "read"
[sweep]
clients = {clients}
[trial]
warmup = "{warmup}s"
duration = "{seconds}s"
repeats = {pairs}
seed = {seed}
[search]
find = "settings"
trials = {trials}
"""


def plan_of(name: str, options: argparse.Namespace, seed: int) -> str:
    """Returns the text of a plan in which the setting `name` begins badly."""
    text = PLAN.format(
        scale=1 if name == NONE else PLANTED[name].scale,
        clients=options.clients,
        warmup=options.warmup,
        seconds=options.seconds,
        pairs=options.pairs,
        trials=options.trials,
        seed=seed,
    )
    over = IRRELEVANT | (SIXTH if name == NONE else {name: PLANTED[name].over})
    text += "".join(f'over.{each} = "{span}"\n' for each, span in over.items())
    start = {} if name == NONE else {name: PLANTED[name].start}
    # a commit that waits for the disk would hide what a checkpoint costs
    settings = start | {"synchronous_commit": "off"}
    return text + "[target.pg18.settings]\n" + "".join(f'{each} = "{value}"\n' for each, value in settings.items())


def searched(folder: Path, name: str, options: argparse.Namespace, seed: int) -> tuple[SearchRecord, float]:
    """Runs one search; returns its result, and how many seconds it took."""
    of = PLANTED["random_page_cost" if name == NONE else name]
    (folder / "load.sql").write_text(of.script)
    plan = folder / f"planted-{name}-{seed}.toml"
    plan.write_text(plan_of(name, options, seed))
    command = [sys.executable, "-m", "pgdyno", "tune", str(plan), "--runs", str(folder / "runs"), "--json", "--quiet"]
    began = time.monotonic()
    done = subprocess.run([*command, "--no-preflight", "--wait"], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{done.stdout}{done.stderr}")
    run = json.loads(done.stdout.splitlines()[-1])["run"]
    return RunFolder.open(Path(run)).manifest.search[0], time.monotonic() - began


def confirmed_words(found: SearchRecord) -> str:
    if found.settings and found.confirmed is not None:
        of = found.confirmed
        return f"{100 * of.change:+.1f} % ({100 * of.low:+.1f} to {100 * of.high:+.1f} %)"
    return f"nothing ({found.confirmed.verdict if found.confirmed else 'not better'})"


def planted_names(text: str) -> list[str]:
    names = text.split(",")
    unknown = [name for name in names if name not in (*PLANTED, NONE)]
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; there are {', '.join((*PLANTED, NONE))}")
    return names


def main() -> None:
    """Searches for each planted setting, and prints a row for each search."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plant", type=planted_names, default=[*PLANTED, NONE], help="with commas; default: each")
    parser.add_argument("--searches", type=int, default=5, help="of each kind")
    parser.add_argument("--trials", type=int, default=28, help="proposals of a search")
    parser.add_argument("--seconds", type=float, default=4, help="of a trial")
    parser.add_argument("--warmup", type=float, default=1, help="seconds before it")
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=8, help="of a comparison")
    parser.add_argument("--out", type=Path, help="write the searches to this file")
    options = parser.parse_args()
    rows: list[dict[str, object]] = []
    print(
        "| planted | seed | confirmed | lines kept | right | trials | seconds |\n|---|--:|---|---|---|--:|--:|",
        flush=True,
    )
    with tempfile.TemporaryDirectory() as folder:
        for name in options.plant:
            for seed in range(1, options.searches + 1):
                found, seconds = searched(Path(folder), name, options, seed)
                right = found.settings.keys() == ({name} - {NONE})
                kept = ", ".join(f"{each} = {value}" for each, value in found.settings.items()) or "none"
                cells = (
                    name,
                    seed,
                    confirmed_words(found),
                    kept,
                    "yes" if right else "no",
                    found.trials,
                    f"{seconds:.0f}",
                )
                print(f"| {' | '.join(map(str, cells))} |", flush=True)
                rows.append(
                    {
                        "planted": name,
                        "seed": seed,
                        "right": right,
                        "seconds": seconds,
                        "found": found.model_dump(mode="json"),
                    }
                )
    print(f"\n{sum(bool(row['right']) for row in rows)} of {len(rows)} searches right")
    if options.out is not None:
        options.out.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
