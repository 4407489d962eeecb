"""Two equal servers next to a noisy neighbour: order "duet" against "interleaved", for the same time on the machine.

    python benchmarks/duet.py [--pairs=12] [--trial=4] [--hog=all|one] [--seed=1]

The neighbour is a busy loop on each processor (`--hog=all`), or a single one that the kernel may move (`--hog=one`). It
runs and rests for random times of 3 s on average. Both orders meet the same times, from the same seed. Two trials of a
duet run at the same time, so a duet makes twice as many pairs in the time of an interleaved run. Prints the table of
docs/concepts/duet.md.
"""

import argparse
import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pgdyno.analyse.comparison import compare
from pgdyno.analyse.pairs import Metric, within
from pgdyno.store import find_run, list_runs, load_run

MEAN_S = 3.0
"""Of the times for which the neighbour runs, and rests."""
WARMUP_S = 0.5
SPIN = "while True: pass"

PLAN = """
name = "{order}"
[target.a]
kind = "embedded"
version = "18"
settings = {{ fsync = "off" }}
[target.b]
kind = "embedded"
version = "18"
settings = {{ fsync = "off" }}
[workload]
scripts = ["select-only"]
[sweep]
clients = [2]
workers = [1]
protocol = ["prepared"]
[trial]
order = "{order}"
duration = "{trial}s"
warmup = "{warmup}s"
repeats = {pairs}
[reset]
method = "none"
checkpoint = false
consistency = "none"
[probe]
enabled = false
"""


@dataclass(frozen=True)
class Line:
    """What one run came to."""

    order: str
    neighbour: bool
    pairs: int
    wall_s: float
    change: float
    low: float
    high: float
    spread: float
    """Standard deviation of a pair's log ratio."""

    @property
    def width(self) -> float:
        return self.high - self.low


@contextmanager
def neighbour(which: str, seed: int) -> Iterator[None]:
    """Busy loops that are stopped and continued together at random times within the block."""
    processors = sorted(os.sched_getaffinity(0)) if which == "all" else [None]
    loops = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in processors]
    over = threading.Event()

    def switch() -> None:
        chance, runs = random.Random(seed), True
        while not over.wait(chance.expovariate(1 / MEAN_S)):
            runs = not runs
            for loop in loops:
                loop.send_signal(signal.SIGCONT if runs else signal.SIGSTOP)

    thread = threading.Thread(target=switch)
    try:
        for loop, processor in zip(loops, processors, strict=True):
            if processor is not None:
                os.sched_setaffinity(loop.pid, {processor})
        thread.start()
        yield
    finally:
        over.set()
        if thread.ident is not None:
            thread.join()
        for loop in loops:
            loop.kill()
            loop.wait()


def measured(order: str, pairs: int, trial_s: float, hog: str | None, seed: int, folder: Path) -> Line:
    """Runs the plan once."""
    folder.mkdir()
    plan = folder / "plan.toml"
    plan.write_text(PLAN.format(order=order, trial=trial_s, warmup=WARMUP_S, pairs=pairs))
    command = [sys.executable, "-m", "pgdyno", "run", str(plan), "--no-preflight", "--alongside"]
    started = time.monotonic()
    if hog is None:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    else:
        with neighbour(hog, seed):
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    wall_s = time.monotonic() - started
    if done.returncode != 0:
        sys.exit(f"the run failed: {done.stdout}{done.stderr}")
    runs = folder / "pgdyno-runs"
    run = load_run(find_run(list_runs(runs)[0].name, runs))
    (arms,) = within(run, "target", Metric.TPS)
    (found,) = compare([arms])
    interval = found.points[0].interval
    assert interval is not None
    spread = interval.error * math.sqrt(found.points[0].pairs)
    low, high = math.expm1(interval.low), math.expm1(interval.high)
    change = math.expm1(interval.mean)
    return Line(order, hog is not None, found.points[0].pairs, wall_s, change, low, high, spread)


def main() -> None:
    """Prints a row per run, and the ratio of the widths."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--pairs", type=int, default=12, help="pairs of the interleaved runs; a duet makes twice as many"
    )
    parser.add_argument("--trial", type=float, default=4.0, help="seconds of a trial")
    parser.add_argument("--hog", choices=["all", "one"], default="all")
    parser.add_argument("--quiet-too", action="store_true", help="also without the neighbour")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    given = parser.parse_args()
    lines = []
    print("| neighbour | order | pairs | wall time | b vs a | 95 % interval | its width | scatter of a pair |")
    print("|---|---|--:|--:|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory(prefix="duet-") as folder:
        for hog in ([None] if given.quiet_too else []) + [given.hog]:
            for order, pairs in (("interleaved", given.pairs), ("duet", 2 * given.pairs)):
                at = Path(folder) / f"{order}-{hog}"
                line = measured(order, pairs, given.trial, hog, given.seed, at)
                lines.append(line)
                print(
                    f"| {'none' if hog is None else hog} | {order} | {line.pairs} | {line.wall_s:.0f} s "
                    f"| {100 * line.change:+.1f} % | {100 * line.low:+.1f} to {100 * line.high:+.1f} % "
                    f"| {100 * line.width:.1f} points | {100 * line.spread:.1f} % |",
                    flush=True,
                )
    for first, second in zip(lines[::2], lines[1::2], strict=True):
        met = "reached" if second.width <= first.width / 2 else "not reached"
        print(f"\nwidth of duet / interleaved: {second.width / first.width:.2f} (goal: at most 0.5: {met})")
    if given.json is not None:
        given.json.write_text(json.dumps([vars(line) for line in lines], indent=2) + "\n")


if __name__ == "__main__":
    main()
