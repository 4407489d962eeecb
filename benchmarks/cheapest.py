"""Finds the cheapest of servers with planted capacities: how often the answer is right, and in how many trials.

    python benchmarks/cheapest.py [--searches=10] [--seconds=10] [--out=FILE]     (as root, with a cpu control group)

Starts a cluster for each target, whose server processes may use a share of half a processor (CFS quota of a control
group, as in instances.py), measures the throughput of each, and promises a rate at which the planted target and all
larger ones are loaded to at most 70 %; the next smaller one would need about 150 % of its capacity. Each search is
an ordinary `pgdyno run` over two families of priced targets. Run it on an idle machine: other programs take processor
time that a quota does not reserve.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from instances import FULL, limited, load

from pgdyno.store import RunFolder, list_runs
from pgdyno.targets import Home, SilentProgress, open_target
from pgdyno.targets.embedded.schema import EmbeddedTarget

FAMILIES = (("a1", "a2", "a3"), ("b2", "b3"))
SHARES = {"a1": 0.25, "a2": 0.5, "a3": 1.0, "b2": 0.5, "b3": 1.0}
"""Of `FULL`."""
PRICES = {"a1": 1.0, "b2": 1.5, "a2": 2.0, "a3": 4.0, "b3": 5.0}
ANSWERS = {0.25: "a1", 0.5: "b2", 1.0: "a3", 2.0: None}
"""The cheapest target by the planted share that the promise needs."""
LOAD, LIMIT, CLIENTS = 0.7, "p99 < 250ms", 64
QUERY = "SELECT sum(i) FROM generate_series(1, 1000) i;\n"
"""So short that a trial has thousands of them on the smallest server: the queue that forms by chance at 70 % of its
capacity then stays far from the limit."""
PGDYNO = Path(sys.executable).with_name("pgdyno")

PLAN = """\
name = "cheapest"
[workload]
scripts = ["query.sql"]
dataset = "none"
[sweep]
clients = {clients}
rate = {rate}
protocol = "prepared"
[trial]
warmup = "{warmup}s"
duration = "{seconds}s"
repeats = 3
[probe]
enabled = false
[search]
find = "cheapest"
latency = "{limit}"
families = {families}
[price]
currency = "EUR"
date = 2026-11-01
years = 1
"""


@contextmanager
def servers() -> Iterator[dict[str, dict[str, str]]]:
    """Starts a limited server for each target; yields the variables with which libpq reaches it."""
    spec = EmbeddedTarget(kind="embedded", version="18", settings={"fsync": "off", "shared_buffers": "16MB"})
    with ExitStack() as stack:
        found = {}
        for name, share in SHARES.items():
            opened = open_target(name, spec, home=Home.locate(), progress=SilentProgress())
            server = stack.enter_context(opened)
            stack.enter_context(limited(server.data_directory, share, f"pgdyno-cheapest-{os.getpid()}-{name}"))
            found[name] = server.environment()
        yield found


def capacities(reached: Mapping[str, Mapping[str, str]], seconds: float) -> dict[str, float]:
    """Returns the throughput of each server, in tps: the median of three trials.

    A quota does not tell it: with as many clients, a small server takes more processor time for a transaction.
    """
    return {
        name: statistics.median(load(dict(variables), seconds, QUERY, CLIENTS) for _ in range(3))
        for name, variables in reached.items()
    }


def promised(share: float, reaches: Mapping[str, float]) -> float:
    """Returns the rate that servers with `share` or more keep, by the throughput of each server; in tps."""
    able = [reaches[name] for name in SHARES if SHARES[name] >= share]
    return LOAD * min(able) if able else 2 * LOAD * max(reaches.values())


def search(folder: Path, reached: Mapping[str, Mapping[str, str]], rate: float, seconds: float) -> dict[str, object]:
    """Runs one search at the promised `rate`; returns its answer, its trials, and the verdict of each target."""
    (folder / "query.sql").write_text(QUERY)
    families = json.dumps([list(family) for family in FAMILIES])
    text = PLAN.format(
        rate=round(rate), warmup=seconds / 5, seconds=seconds, limit=LIMIT, families=families, clients=CLIENTS
    )  # fmt: skip
    for name, variables in reached.items():
        dsn = " ".join(f"{key[2:].lower()}={variables[key]}" for key in ("PGHOST", "PGPORT", "PGUSER"))
        text += f'[price.target.{name}]\nhourly = [{{ amount = {PRICES[name]} }}]\n[target.{name}]\nkind = "dsn"\n'
        text += f'dsn = "{dsn}"\ndatabase = "cheapest"\n'
    (folder / "plan.toml").write_text(text)
    command = [str(PGDYNO), "run", "plan.toml", "--no-preflight", "--runs=runs"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"pgdyno run ended with {done.returncode}: {done.stderr}")
    newest = max(list_runs(folder / "runs"), key=lambda each: each.path.name)
    (found,) = RunFolder.open(newest.path).manifest.search
    return {
        "rate": round(rate),
        "answer": found.target if found.kept else None,
        "trials": found.trials,
        "verdicts": {each.target: each.verdict for each in found.targets},
        "words": found.words,
    }


def main() -> None:
    """Searches for each planted answer, and prints a row for it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--searches", type=int, default=10, help="of each planted answer")
    parser.add_argument("--seconds", type=float, default=10, help="of a trial")
    parser.add_argument("--shares", type=float, nargs="*", default=list(ANSWERS), choices=list(ANSWERS))
    parser.add_argument("--out", type=Path, help="write the searches to this file")
    given = parser.parse_args()
    found: list[dict[str, object]] = []
    with servers() as reached, tempfile.TemporaryDirectory() as folder:
        reaches = capacities(reached, max(given.seconds / 2, 1.0))
        listed = ", ".join(f"{name} {SHARES[name] * FULL:.1%} {reaches[name]:,.0f}" for name in SHARES)
        print(f"share of a processor, and throughput in tps: {listed}\n")
        print(
            "| promised rate, tps | planted answer | searches | right | another answer | undecided | targets measured |"
        )
        print("|--:|---|--:|--:|--:|--:|--:|")
        for share in given.shares:
            rows = [
                search(Path(folder), reached, promised(share, reaches), given.seconds) for _ in range(given.searches)
            ]
            found += [row | {"planted": ANSWERS[share]} for row in rows]
            right = sum(row["answer"] == ANSWERS[share] for row in rows)
            open_ = sum("not decided" in str(row["words"]) for row in rows if row["answer"] != ANSWERS[share])
            measured = sum(int(str(row["trials"])) for row in rows) / 3 / len(rows)
            cells = (
                f"{rows[0]['rate']:,}",
                ANSWERS[share] or "none",
                len(rows),
                right,
                len(rows) - right - open_,
                open_,
            )
            print(f"| {' | '.join(map(str, cells))} | {measured:.1f} of {len(SHARES)} |", flush=True)
    if given.out is not None:
        given.out.write_text(json.dumps({"capacities": reaches, "searches": found}, indent=2) + "\n")


if __name__ == "__main__":
    main()
