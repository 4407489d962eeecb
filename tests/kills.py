"""Kills runs and their resumes at random times, and counts what is lost: `python -m tests.kills 200`.

Each round starts a short run, and sends it SIGKILL, SIGTERM or SIGINT at a random time in its duration. The round
resumes the run, kills it again in the same way, and then resumes it to its end. It counts

- lost trials: stored before a kill, and changed or missing at the end; or missing at the end
- orphans: processes of a run that still exist `GRACE_S` after the run has ended
- lost signals: a run that continued to its end after SIGTERM or SIGINT, although trials were still to do

The program prints its seed. The same seed gives the same signals, at the same fractions of a run's duration.
"""

import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from pgdyno.targets import Home
from pgdyno.targets.cluster.processes import PROC, ProcessId, descendants, identify
from tests.unit.plan_sample import small_plan

PLAN = small_plan(
    'scripts = ["select-only"]\nscale = 1', "clients = [1, 2]", 'duration = "500ms"\n[reset]\ncheckpoint = false'
).replace('"18"', '"18"\nkeep_data = {keep}\nsettings = {{ shared_buffers = "16MB" }}')
TRIALS = 2
"""The number of trials in a run."""
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
GRACE_S = 30.0
LONGEST_S = 300.0
_ENDED = {signal.SIGTERM: (143, -signal.SIGTERM), signal.SIGINT: (130, -signal.SIGINT)}
"""Exit codes of a process that the signal ended, possibly before pgdyno installed its handlers."""


@dataclass
class Kills:
    """The rounds in one folder, and their counts."""

    folder: Path
    draw: random.Random
    length_s: float = 0.0
    """The duration of the last complete run, because the speed of a machine may change."""
    moments: list[float] = field(default_factory=list)
    """Times in seconds at which SIGINT arrived while Python started."""
    counts: Counter[str] = field(default_factory=Counter)

    def learn(self) -> None:
        """Measures the duration of a complete run, and asserts that it stores its two trials."""
        plan = self.folder / "plan.toml"
        plan.write_text(PLAN.format(keep="false"))
        started = time.monotonic()
        process = self.start(["run", str(plan), "--runs", str(self.folder / "runs"), "--no-preflight"])
        said = process.communicate(timeout=LONGEST_S)[0]
        assert (process.returncode, len(digests(self.folder / "runs"))) == (0, TRIALS), said
        self.length_s = time.monotonic() - started
        print(f"a run takes {self.length_s:.1f} s", flush=True)

    def round(self, number: int) -> None:
        """Starts one run, and kills it twice."""
        runs = self.folder / f"runs-{number}"
        plan = self.folder / f"plan-{number}.toml"
        plan.write_text(PLAN.format(keep="true" if number % 2 else "false"))
        begin = ["run", str(plan), "--runs", str(runs), "--no-preflight"]
        self.killed(begin, runs)
        self.killed(self.going_on(runs) or begin, runs)
        stored = digests(runs)
        # a run that ended before its kill was started again, so there may be two
        while (left := self.going_on(runs)) is not None:
            last = self.start(left)
            said = last.communicate(timeout=LONGEST_S)[0]
            if last.returncode != 0:
                self.counts["failed runs"] += 1
                self.tell(f"a resume ended with {last.returncode}", said)
                return
        now = digests(runs)
        lost = [name for name, digest in stored.items() if now.get(name) != digest]
        missing = TRIALS * len(list(runs.glob("*/manifest.json"))) - len(now)
        if lost or missing:
            self.counts["lost trials"] += len(lost) + missing
            self.tell("lost trials", f"{lost}, {missing} missing")

    def killed(self, command: list[str], runs: Path) -> None:
        """Runs one command, and kills it."""
        number = self.draw.choice(SIGNALS)
        moment_s = self.draw.uniform(0, self.length_s)
        started = time.monotonic()
        process = self.start(command)
        try:
            process.wait(moment_s)
        except subprocess.TimeoutExpired:
            pass
        else:
            self.length_s = time.monotonic() - started
            said = process.communicate()[0]
            if process.returncode != 0:
                self.counts["failed runs"] += 1
                self.tell(f"exit {process.returncode} without a signal", said)
            self.counts["came to their end before"] += 1
            return
        own = identify(process.pid)
        family = [] if own is None else descendants(own)
        left = self.going_on(runs)
        process.send_signal(number)
        self.counts[f"kills by {number.name}"] += 1
        # what is asked to end may have begun more in between
        said = process.communicate(timeout=LONGEST_S)[0]
        ended = left is None and any(runs.glob("*/manifest.json"))
        self.judge(number, moment_s, process.returncode, said, ended=ended)
        end = time.monotonic() + (GRACE_S if number is signal.SIGKILL else 5.0)
        while (alive := self.alive(family)) and time.monotonic() < end:
            time.sleep(0.05)
        if alive:
            self.counts["orphans"] += len(alive)
            self.tell(f"{number.name} at {moment_s:.2f} s: orphans", str([(each.pid, said_of(each)) for each in alive]))
            for each in alive:
                each.send(signal.SIGKILL)

    def judge(self, number: signal.Signals, moment_s: float, code: int, said: str, *, ended: bool) -> None:
        """Counts how a command ended after the signal `number`; `ended` says that its run was already complete."""
        early = number is signal.SIGINT and code in (1, *_ENDED[number])
        if early and "KeyboardInterrupt" in said and re.search(r'cli\.py", line \d+, in main', said) is None:
            # Python itself had not come to pgdyno's first line
            self.counts["SIGINT while Python began"] += 1
            self.moments.append(moment_s)
        elif number is not signal.SIGKILL and code not in _ENDED[number]:
            late = code == 0 and ended
            self.counts["signals after the run was closed, exit 0" if late else "lost signals"] += 1
            if not late:
                self.tell(f"{number.name} at {moment_s:.2f} s: exit {code}", said)
        elif "Traceback" in said and code >= 0:
            self.counts["tracebacks"] += 1
            self.tell(f"{number.name} at {moment_s:.2f} s: traceback", said)

    def alive(self, family: list[ProcessId]) -> list[ProcessId]:
        found = {each for each in family if each.is_alive()}
        for entry in PROC.iterdir():
            if entry.name.isdecimal() and (each := identify(int(entry.name))) and str(self.folder) in said_of(each):
                found.add(each)
        return sorted(found, key=lambda each: each.pid)

    def start(self, command: list[str]) -> subprocess.Popen[str]:
        environment = {**os.environ, "PGDYNO_HOME": str(self.folder / "home"), "PGDYNO_LOCKS": str(self.folder)}
        argv = [str(Path(sys.executable).parent / "pgdyno"), *command]
        return subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, cwd=self.folder
        )

    def going_on(self, runs: Path) -> list[str] | None:
        """Returns the command that resumes the run; None without a run, or if it is complete."""
        for manifest in runs.glob("*/manifest.json"):
            if json.loads(manifest.read_text())["outcome"] != "finished":
                return ["run", "--resume", str(manifest.parent), "--no-preflight"]
        return None

    def tell(self, what: str, said: str) -> None:
        print(f"--- {what}\n{said[-3000:]}", file=sys.stderr, flush=True)


def said_of(process: ProcessId) -> str:
    try:
        return (PROC / str(process.pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def digests(runs: Path) -> dict[str, str]:
    paths = runs.glob("*/trials/*/trial.json")
    return {str(path.parent.relative_to(runs)): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def main(kills: int, seed: int) -> int:
    """Runs rounds until the number of kills is reached; returns 1 if anything was lost."""
    print(f"seed {seed}", flush=True)
    # a shell starts what is in its background with SIGINT ignored, and so would every run be
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="pgdyno-kills-", dir="/var/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "home").mkdir()
        # fetched before: what is measured here is not the network
        (folder / "home" / "postgres").symlink_to(Home.locate().postgres)
        each = Kills(folder, random.Random(seed))
        each.learn()
        number = 0
        while sum(count for what, count in each.counts.items() if what.startswith("kills by")) < kills:
            each.round(number)
            number += 1
            print(f"{number} runs: {dict(sorted(each.counts.items()))}", flush=True)
    if each.moments:
        print(f"SIGINT while Python began: up to {max(each.moments):.2f} s")
    lost = {what: each.counts[what] for what in ("lost trials", "orphans", "lost signals", "tracebacks", "failed runs")}
    print(", ".join(f"{count} {what}" for what, count in lost.items()))
    return 1 if any(lost.values()) else 0


if __name__ == "__main__":
    arguments = [int(each) for each in sys.argv[1:]]
    sys.exit(main(arguments[0] if arguments else 200, arguments[1] if len(arguments) > 1 else random.randrange(2**31)))
