"""Trials of hours: whether servers last, and what pgdyno itself takes meanwhile.

    python benchmarks/endurance.py [--duration=4h] [--at-once] [--out=endurance-runs]       (with psql)

Runs `endurance.toml` twice, as TPC-B and select-only, each on a server with autovacuum and on one without it whose
rows an old snapshot keeps: four trials, one after the other, or two at the same time. Once a minute it measures the
memory of pgdyno, its probe and its engine, and the size of the run folder. It prints both tables in Markdown; the run
folders and their reports stay in `--out`.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PLAN = Path(__file__).with_name("endurance.toml")
PGDYNO = Path(sys.executable).with_name("pgdyno")
LOADS = {"tpcb-like": 50, "select-only": 200}
"""Transactions per second."""
SHARES = (0.02, 0.25, 0.5, 0.75, 0.98)
"""Of a trial: when its memory is shown."""
PROGRAMS = ("pgdyno", "pgprobe", "pgdrive")
MB = 1e6


@dataclass(frozen=True)
class Sample:
    """What one run takes at one time."""

    trial: int
    """The engine's process: a trial has one."""
    bytes: Mapping[str, int]
    """Resident memory by program, and the size of the run folder as `folder`."""


@dataclass
class Run:
    """A run of the plan that goes on."""

    load: str
    folder: Path
    process: subprocess.Popen[bytes]
    samples: list[Sample]

    def sample(self) -> None:
        """Adds a sample, unless no load runs now."""
        found: dict[str, tuple[int, int]] = {"pgdyno": (self.process.pid, _resident(self.process.pid))}
        for pid, name in _children(self.process.pid):
            # the engine that measures the network path is over by then
            found[name] = pid, _resident(pid)
        if all(name in found for name in PROGRAMS):
            size = sum(path.stat().st_size for path in _files(self.folder))
            taken = {name: found[name][1] for name in PROGRAMS} | {"folder": size}
            self.samples.append(Sample(found["pgdrive"][0], taken))


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        # a file may be removed meanwhile
        with suppress(OSError):
            if path.is_file():
                yield path


def _children(parent: int) -> Iterator[tuple[int, str]]:
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            head, _, rest = status.read_text().rpartition(")")
            if int(rest.split()[1]) == parent:
                yield int(status.parent.name), head.partition("(")[2]


def _resident(pid: int) -> int:
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def begin(load: str, given: argparse.Namespace) -> Run:
    """Starts pgdyno with one load; its runs are in a folder of their own."""
    folder = given.out / load
    folder.mkdir(parents=True)
    settings = {
        "name": f"endurance-{load}",
        "workload.scripts": json.dumps([load]),
        "sweep.rate": LOADS[load],
        "trial.warmup": given.warmup,
        "trial.duration": given.duration,
    }
    command = [str(PGDYNO), "run", str(PLAN), "--runs", str(folder), "--alongside"]
    command += [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    with (folder / "pgdyno.log").open("wb") as log:
        return Run(load, folder, subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT), [])


def follow(runs: Sequence[Run], every_s: float) -> None:
    """Samples `runs` until all have ended."""
    while any(run.process.poll() is None for run in runs):
        for run in runs:
            run.sample()
        time.sleep(every_s)


def verdicts(runs: Sequence[Run]) -> Iterator[str]:
    """Yields a table of the trials' verdicts."""
    yield "| load | server | throughput, per hour | latency, per hour | verdict | size, MB | grown, MB | dead rows |"
    yield "|---|---|---|---|---|--:|--:|--:|"
    for run in runs:
        shown = subprocess.run(
            [str(PGDYNO), "show", "latest", "--runs", str(run.folder), "--json"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        said = json.loads(shown.stdout)
        targets = {trial["number"]: trial["target"] for trial in said["trials"]}
        for each in said["answer"]["endurance"]:
            sums = [sum(table[name] or 0 for table in each["tables"]) for name in ("bytes", "grown_bytes", "dead_rows")]
            yield (
                f"| {run.load} | {targets[each['trial']]} | {_trend(each['tps'])} | {_trend(each['latency'])} "
                f"| {each['verdict']} | {sums[0] / MB:,.0f} | {sums[1] / MB:+,.1f} | {sums[2]:,.0f} |"
            )


def _trend(of: Mapping[str, Any] | None) -> str:
    if of is None:
        return ""
    change, low, high = (f"{100 * of[name]:+.2g}" for name in ("per_hour", "low", "high"))
    return f"{change} % ({low} to {high}): {of['verdict']}"


def memory(runs: Sequence[Run]) -> Iterator[str]:
    """Yields a table of what pgdyno took, in MB."""
    yield f"| load | trial | | {' | '.join(f'{share:.0%}' for share in SHARES)} |"
    yield f"|---|--:|---|{'--:|' * len(SHARES)}"
    for run in runs:
        for number, trial in enumerate(dict.fromkeys(sample.trial for sample in run.samples), start=1):
            samples = [sample for sample in run.samples if sample.trial == trial]
            for name in (*PROGRAMS, "folder"):
                cells = (f"{samples[int(share * len(samples))].bytes[name] / MB:,.1f}" for share in SHARES)
                yield f"| {run.load} | {number} | {name} | {' | '.join(cells)} |"


def main() -> None:
    """Runs both loads and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--duration", default="4h", help="of a trial; a verdict needs an hour")
    parser.add_argument("--warmup", default="60s", help="before each trial")
    parser.add_argument("--at-once", action="store_true", help="run both loads at the same time")
    parser.add_argument("--every", type=float, default=60.0, help="seconds between two samples of memory")
    parser.add_argument("--out", type=Path, default=Path("endurance-runs"), help="a new folder")
    given = parser.parse_args()
    if given.out.exists():
        parser.error(f"--out: {given.out} exists already; name a new folder")
    runs: list[Run] = []
    for loads in [list(LOADS)] if given.at_once else [[load] for load in LOADS]:
        begun = [begin(load, given) for load in loads]
        follow(begun, given.every)
        runs += begun
    # hours of the others are kept if one fails
    failed = [run for run in runs if run.process.returncode]
    ended = [run for run in runs if run not in failed]
    print("\n".join([*verdicts(ended), "", *memory(ended)]))
    for run in ended:
        print(f"\n{run.load}: {next(run.folder.glob('*/report.html'))}", end="")
    print()
    if failed:
        sys.exit("\n".join(f"{run.load} failed: see {run.folder / 'pgdyno.log'}" for run in failed))


if __name__ == "__main__":
    main()
