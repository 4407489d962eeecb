"""What watching costs: the CPU of the server beside a live run while one browser watches it, and while ten do.

A browser is a connection that reads every server-sent event; drawing is the browser's own business. Take figures on an
idle machine.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from measured import process_cpu_s

GOAL = 0.02
"""Of one core, ten browsers."""
PLAN = """\
name = "watched"
[target.pg]
kind = "embedded"
version = "18"
[workload]
scripts = ["select-only"]
scale = 10
[sweep]
clients = [8]
[trial]
warmup = "5s"
duration = "{seconds}s"
"""
SETTLE_S = 8.0
"""After the browsers have come: the first message is all of the run."""


@dataclass
class Browsers:
    """Readers of one stream."""

    url: str
    received: list[int] = field(default_factory=list)
    """Bytes of each."""

    @contextmanager
    def watching(self, number: int) -> Iterator[None]:
        """So many of them, until the block ends."""
        streams = [urllib.request.urlopen(f"{self.url}/stream", timeout=60) for _ in range(number)]
        self.received = [0] * number
        over = threading.Event()

        def read(at: int) -> None:
            while not over.is_set():
                line = streams[at].readline()
                if not line:
                    return
                self.received[at] += len(line)

        threads = [threading.Thread(target=read, args=(at,), daemon=True) for at in range(number)]
        for each in threads:
            each.start()
        yield
        over.set()
        for each in threads:
            each.join(30)
        for stream in streams:
            stream.close()


def server_of(folder: Path) -> int:
    """The process that serves beside a run in `folder`."""
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = file.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"pgdyno.live.server.background_server" in words and words[-2].startswith(os.fsencode(folder)):
            return int(file.parent.name)
    sys.exit("no server beside the run")


def main() -> None:
    """Prints a line for each number of browsers, and whether the goal holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=30, help="of each measurement")
    seconds: int = parser.parse_args().seconds
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place).resolve()
        plan = folder / "watched.toml"
        plan.write_text(PLAN.format(seconds=round(3 * (seconds + SETTLE_S) + 60)))
        command = [str(Path(sys.executable).parent / "pgdyno"), "run", str(plan), "--live", "--no-preflight"]
        run = subprocess.Popen(command, cwd=folder, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            assert run.stderr is not None
            url = next(found[0] for line in run.stderr if (found := re.search(r"http://\S+", line)))
            threading.Thread(target=run.stderr.read, daemon=True).start()
            with Browsers(url).watching(1):
                wait_for_load(folder)
                server = server_of(folder)
            shares = {number: measured(url, server, number, seconds) for number in (0, 1, 10)}
        finally:
            run.terminate()
            run.wait(120)
    print(f"goal: 10 browsers at most {GOAL:.0%} of a core: {'reached' if shares[10] <= GOAL else 'not reached'}")


def wait_for_load(folder: Path) -> None:
    """Until the trial runs."""
    while not any('"e":"second"' in file.read_text() for file in folder.glob("*/*/journal.jsonl")):
        time.sleep(0.5)


def measured(url: str, server: int, number: int, seconds: int) -> float:
    """Share of a core that the server takes while `number` watch."""
    browsers = Browsers(url)
    with browsers.watching(number):
        time.sleep(SETTLE_S)
        before, began = process_cpu_s(server), time.monotonic()
        bytes_before = sum(browsers.received)
        time.sleep(seconds)
        share = (process_cpu_s(server) - before) / (time.monotonic() - began)
        each = (sum(browsers.received) - bytes_before) / max(number, 1) / seconds
    print(f"{number:2} browsers: {share:.2%} of a core, {each:,.0f} bytes a second to each")
    return share


if __name__ == "__main__":
    main()
