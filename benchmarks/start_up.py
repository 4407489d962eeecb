"""How long commands take until they have printed: wall time and CPU time of whole processes, medians and goals.

CPU time is compared with the goals, which hold for an idle machine: on a busy one, CPU time grows, too. The stored run
that is shown has 18 trials of 5 s; its figures are made up.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from report import make

PGDYNO = Path(sys.executable).parent / "pgdyno"
GOALS_S: dict[tuple[str, ...], float] = {
    ("--help",): 0.2,
    ("list",): 0.3,
    ("plan", "check", "quick"): 0.3,
    ("show",): 0.5,
}
"""Longest CPU times."""
TRIALS, SECONDS = 18, 5


def taken_s(words: Sequence[str], cwd: Path) -> tuple[float, float]:
    """Returns wall and CPU time of one process, in seconds."""
    # without this variable, as for most users: with it, modules that no start has compiled are compiled each time
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    began = time.perf_counter()
    with subprocess.Popen([PGDYNO, *words], cwd=cwd, env=environment, stdout=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, words
    return time.perf_counter() - began, used.ru_utime + used.ru_stime


def main() -> int:
    """Prints a table; the exit code says whether all goals are reached."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    rounds: int = parser.parse_args().rounds
    print("| command | wall, s | CPU, s | goal, s | |\n|---|--:|--:|--:|---|")
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder) / "pgdyno-runs", TRIALS, SECONDS)
        for words, goal_s in GOALS_S.items():
            # the first start may have to compile modules
            taken_s(words, Path(folder))
            wall_s, cpu_s = map(
                statistics.median, zip(*(taken_s(words, Path(folder)) for _ in range(rounds)), strict=True)
            )
            reached = cpu_s <= goal_s
            missed += not reached
            verdict = "reached" if reached else "not reached"
            print(f"| {' '.join(('pgdyno', *words))} | {wall_s:.2f} | {cpu_s:.2f} | {goal_s} | {verdict} |")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
