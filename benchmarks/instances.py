"""Two arms from one pool of unequal servers: how often each interval calls them different.

    python benchmarks/instances.py [--trials=40] [--seconds=1.5]       (as root, with a cpu control group)

Starts three clusters of one version whose server processes may use 100, 97 and 94 % of half a processor (CFS quota of
a control group), and measures each many times with short loads of a query that needs only processor time, in turns.
Then draws comparisons from these trials: each arm gets three servers from the pool, with replacement, as if it rented
them, and four trials of each, none of them used twice in a comparison. Both arms are the same pool, so every difference
that is claimed is wrong. The trials must scatter much less than the quotas differ, so the machine must be idle.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pgdyno.analyse.comparison import Verdict, compare
from pgdyno.analyse.pairs import Arms, Metric, PointPairs
from pgdyno.messages import Message
from pgdyno.programs import find_engine
from pgdyno.records import Point
from pgdyno.targets import Home, SilentProgress, open_target
from pgdyno.targets.cluster.processes import servers_in
from pgdyno.targets.embedded.schema import EmbeddedTarget

QUOTAS = (1.00, 0.97, 0.94)
"""Of `FULL`."""
FULL = 0.5
"""Processors that a server with a quota of 100 % may use: it then reaches its quota whatever else the machine does."""
PERIOD_US = 10_000
DRAWN, EACH = 3, 4
"""Servers of an arm, and trials of each."""
CLIENTS = 2
QUERY = "SELECT sum(i) FROM generate_series(1, 10000) i;\n"
"""Takes about a millisecond of a processor and touches no table, so that the quota alone decides the throughput."""

GROUPS = Path("/sys/fs/cgroup/cpu")
Pool = list[NDArray[np.float64]]
"""Throughput of every trial, by server."""


@contextmanager
def limited(data_directory: Path, share: float, name: str) -> Iterator[None]:
    """Limits the processes of a server within the block to a share of `FULL`."""
    own = next(line.rpartition(":")[2] for line in Path("/proc/self/cgroup").read_text().split() if ":cpu:" in line)
    group = GROUPS / own.lstrip("/") / name
    try:
        group.mkdir()
    except OSError as error:
        sys.exit(f"cannot make the control group {group}: {error.strerror}; this needs root and cgroup v1's cpu")
    try:
        (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (group / "cpu.cfs_quota_us").write_text(str(round(share * FULL * PERIOD_US)))
        # twice: a process that the postmaster starts meanwhile is found the second time
        for _ in range(2):
            for process in servers_in(data_directory):
                with suppress(ProcessLookupError):
                    (group / "cgroup.procs").write_text(str(process.pid))
        yield
    finally:
        while left := (group / "cgroup.procs").read_text().split():
            for pid in left:
                # a process may end meanwhile
                with suppress(ProcessLookupError):
                    (group.parent / "cgroup.procs").write_text(pid)
        group.rmdir()


def load(environment: dict[str, str], seconds: float, query: str = QUERY, clients: int = CLIENTS) -> float:
    """Returns the throughput of one trial of `query`."""
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as script:
        script.write(query)
        script.flush()
        command = [str(find_engine().path), f"--file={script.name}", "--protocol=prepared", "--no-vacuum", "--jobs=1"]
        command += [f"--client={clients}", f"--time={seconds}", "--warmup=0.3"]
        done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=True)
    found = re.search(r"^tps = ([\d.]+)", done.stdout, re.MULTILINE)
    assert found is not None, done.stdout
    return float(found[1])


def measure(trials: int, seconds: float) -> Pool:
    """Measures each server of the pool `trials` times, in turns."""
    spec = EmbeddedTarget(kind="embedded", version="18", settings={"fsync": "off"})
    with ExitStack() as stack:
        servers = []
        for number, share in enumerate(QUOTAS, start=1):
            opened = open_target(f"pool{number}", spec, home=Home.locate(), progress=SilentProgress())
            server = stack.enter_context(opened)
            stack.enter_context(limited(server.data_directory, share, f"pgdyno-instances-{os.getpid()}-{number}"))
            servers.append(server.environment())
        rows = [[load(environment, seconds) for environment in servers] for _ in range(trials)]
    return list(np.array(rows).T)


def drawn(pool: Pool, random: np.random.Generator) -> Arms:
    """Two arms of servers and trials from the pool; repeats take turns at an arm's servers."""
    left = [list(random.permutation(len(trials))) for trials in pool]
    arms: list[dict[int, float]] = []
    turns = {repeat: (repeat - 1) % DRAWN + 1 for repeat in range(1, DRAWN * EACH + 1)}
    for _ in range(2):
        chosen = random.integers(0, len(pool), DRAWN)
        figures = {
            repeat: float(pool[chosen[turns[repeat] - 1]][left[chosen[turns[repeat] - 1]].pop()]) for repeat in turns
        }
        arms.append(figures)
    label = Message("point", "{count} clients", count=CLIENTS)
    point = PointPairs(label, Point(clients=CLIENTS), arms[0], arms[1], instances=(turns, turns))
    return Arms("first", "second", Metric.TPS, True, (point,))


def wrong(arms: Arms) -> tuple[bool, bool]:
    """Whether the interval excludes zero, and whether the verdict is faster or slower."""
    (found,) = compare([arms])
    point = found.points[0]
    assert point.interval is not None
    excludes = point.interval.low > 0 or point.interval.high < 0
    return excludes, point.verdict in (Verdict.FASTER, Verdict.SLOWER)


def table(pool: Pool, comparisons: Sequence[int], seed: int) -> list[dict[str, object]]:
    """Counts wrong claims in each number of comparisons, by the unit of the interval."""
    rows: list[dict[str, object]] = []
    for count in comparisons:
        random = np.random.default_rng(seed)
        pairs = [drawn(pool, random) for _ in range(count)]
        for unit in ("instance", "trial"):
            if unit == "trial":
                pairs = [_without_instances(arms) for arms in pairs]
            found = np.array([wrong(arms) for arms in pairs])
            excludes, claims = 100 * found.mean(axis=0)
            rows.append({"comparisons": count, "unit": unit, "excludes_zero": excludes, "claims": claims})
    return rows


def _without_instances(arms: Arms) -> Arms:
    return replace(arms, points=tuple(replace(point, instances=({}, {})) for point in arms.points))


def main() -> None:
    """Measures, or reads earlier trials, and prints both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=40, help="of each server")
    parser.add_argument("--seconds", type=float, default=1.5, help="of a trial")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the trials to this file")
    parser.add_argument("--from", dest="source", type=Path, help="read the trials from such a file")
    given = parser.parse_args()
    if given.trials < 2 * DRAWN * EACH:
        parser.error(f"--trials: at least {2 * DRAWN * EACH}, which both arms together may draw from one server")
    if given.source is not None:
        pool = [np.array(each) for each in json.loads(given.source.read_text())["tps"]]
    else:
        pool = measure(given.trials, given.seconds)
    if given.json is not None:
        given.json.write_text(json.dumps({"quotas": QUOTAS, "tps": [list(map(float, each)) for each in pool]}) + "\n")
    print("| quota | trials | mean, tps | of the first | scatter of a trial |")
    print("|--:|--:|--:|--:|--:|")
    for quota, trials in zip(QUOTAS, pool, strict=True):
        ratio, scatter = trials.mean() / pool[0].mean(), trials.std(ddof=1) / trials.mean()
        print(f"| {quota:.0%} | {len(trials)} | {trials.mean():,.0f} | {ratio:.3f} | {scatter:.1%} |")
    print("\n| unit of the interval | comparisons | interval excludes zero | called faster or slower |")
    print("|---|--:|--:|--:|")
    for row in table(pool, (100, 5_000), given.seed):
        print(f"| {row['unit']} | {row['comparisons']:,} | {row['excludes_zero']:.1f} % | {row['claims']:.1f} % |")


if __name__ == "__main__":
    main()
