"""A search for settings with one planted bad setting among five that cannot matter, on a real PostgreSQL 18.

    python benchmarks/settings.py [--searches=5] [--trials=28] [--seconds=4] [--pairs=8]

Each search starts anew, with another seed. In half of them random_page_cost begins at 10000, at which the planner reads
the whole table instead of using its index; the load is a lookup in pgbench's accounts, which are cached. The
five others concern archiving, standbys, logging of slow statements and JIT costs, which this load never reaches. In the
other half nothing is planted. Prints for each search what was confirmed, and which lines stayed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from pgdyno.records import SearchRecord
from pgdyno.store import RunFolder

PLAN = """
name = "planted"
[target.pg18]
kind = "embedded"
version = "18"
settings = {{ random_page_cost = "{cost}" }}
[workload]
scripts = ["lookup.sql"]
scale = 1
[reset]
prewarm = "read"
[sweep]
clients = 2
[trial]
warmup = "1s"
duration = "{seconds}s"
repeats = {pairs}
seed = {seed}
[search]
find = "settings"
trials = {trials}
{planted}
over.archive_timeout = "60s..3600s"
over.wal_sender_timeout = "10s..600s log"
over.log_min_duration_statement = "10s..600s log"
over.jit_above_cost = "1000000..9000000"
over.max_slot_wal_keep_size = "1GB..64GB log"
"""
PLANTED = 'over.random_page_cost = "1..10000 log"'
IRRELEVANT = 'over.vacuum_failsafe_age = "1000000000..2000000000"'
LOOKUP = r"""\set aid random(1, 100000)
SELECT abalance FROM pgbench_accounts WHERE aid BETWEEN :aid AND :aid + 20;
"""


def searched(folder: Path, options: argparse.Namespace, seed: int, *, planted: bool) -> SearchRecord:
    """Returns the result of one search."""
    (folder / "lookup.sql").write_text(LOOKUP)
    text = PLAN.format(
        cost=10000 if planted else 4,
        planted=PLANTED if planted else IRRELEVANT,
        seed=seed,
        seconds=options.seconds,
        pairs=options.pairs,
        trials=options.trials,
    )
    plan = folder / f"planted{seed}.toml"
    plan.write_text(text)
    command = [sys.executable, "-m", "pgdyno", "tune", str(plan), "--runs", str(folder / "runs"), "--json", "--quiet"]
    done = subprocess.run([*command, "--no-preflight", "--wait"], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{done.stdout}{done.stderr}")
    run = json.loads(done.stdout.splitlines()[-1])["run"]
    return RunFolder.open(Path(run)).manifest.search[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--searches", type=int, default=5, help="of each kind")
    parser.add_argument("--trials", type=int, default=28, help="proposals of a search")
    parser.add_argument("--seconds", type=float, default=4, help="of a trial")
    parser.add_argument("--pairs", type=int, default=8, help="of a comparison")
    options = parser.parse_args()
    print("| planted | seed | confirmed | lines kept | trials |\n|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for planted in (True, False):
            for seed in range(1, options.searches + 1):
                found = searched(Path(folder), options, seed, planted=planted)
                confirmed = "nothing" if found.confirmed is None else f"{100 * found.confirmed.change:+.1f} %"
                if not found.settings:
                    confirmed = f"nothing ({found.confirmed.verdict if found.confirmed else 'not better'})"
                kept = ", ".join(f"{name} = {value}" for name, value in found.settings.items()) or "none"
                cells = ("yes" if planted else "no", str(seed), confirmed, kept, str(found.trials))
                print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
