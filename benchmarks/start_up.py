"""How long commands take until they have printed: wall time and CPU time of whole processes.

The goals are shares of the CPU time of `import numpy, duckdb`, measured here likewise: the least of all rounds, because
other load adds to CPU time. The stored run that is shown has 18 trials of 5 s; its figures are made up.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from report import make

from pgdyno.commands.support.kept_summary import keep_summary
from pgdyno.report.full_report import whole_report
from pgdyno.store import load_run

PGDYNO = Path(sys.executable).parent / "pgdyno"
GOALS_S: dict[tuple[str, ...], float] = {
    ("--help",): 0.15,
    ("list",): 0.3,
    ("plan", "check", "quick"): 0.4,
    ("show",): 0.6,
}
"""Longest CPU times on cores where the import takes `IMPORT_S`."""
IMPORT, IMPORT_S = ("-c", "import numpy, duckdb"), 0.52
TRIALS, SECONDS = 18, 5


def least_s(command: Sequence[str | Path], cwd: Path, rounds: int) -> tuple[float, float]:
    """Returns the least wall and CPU time of `rounds` processes, in seconds."""
    # the first start may have to compile modules
    taken = [_taken_s(command, cwd) for _ in range(rounds + 1)][1:]
    return min(wall for wall, _ in taken), min(cpu for _, cpu in taken)


def _taken_s(command: Sequence[str | Path], cwd: Path) -> tuple[float, float]:
    # without this variable, as for most users: with it, modules that no start has compiled are compiled each time
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    began = time.perf_counter()
    with subprocess.Popen(command, cwd=cwd, env=environment, stdout=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
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
        data = load_run(next((Path(folder) / "pgdyno-runs").iterdir()))
        report = whole_report([data])
        keep_summary(data, report.draft.of, report.draft.extras)
        scale = least_s([sys.executable, *IMPORT], Path(folder), rounds)[1] / IMPORT_S
        for words, there_s in GOALS_S.items():
            goal_s = there_s * scale
            wall_s, cpu_s = least_s([PGDYNO, *words], Path(folder), rounds)
            reached = cpu_s <= goal_s
            missed += not reached
            verdict = "reached" if reached else "not reached"
            print(f"| {' '.join(('pgdyno', *words))} | {wall_s:.2f} | {cpu_s:.2f} | {goal_s:.2f} | {verdict} |")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
