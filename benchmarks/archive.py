"""The archive's list of a thousand runs: milliseconds of a page, the first time and afterwards.

Makes the runs by the store (figures made up; the tables of all are one file), starts `pgdyno serve` and asks it for the
list and for a search. The server reads every run when it starts, and keeps what it read. Take figures on an idle
machine.
"""

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from datetime import timedelta
from pathlib import Path

from report import make

from pgdyno.records import Manifest
from pgdyno.store import RunFolder

GOAL_MS = 300
START_S = 3
"""Between the server's start and the first page."""


def make_runs(parent: Path, number: int) -> None:
    """`number` runs of two trials, an hour apart, each with a manifest of its own."""
    pattern = RunFolder.open(make(parent / ".pattern", 2, 3))
    for at in range(number):
        started = pattern.manifest.started_at + timedelta(hours=at)
        name = f"{started:%Y%m%dT%H%M%SZ}-large-{at:04x}"
        shutil.copytree(pattern.path, parent / name, copy_function=os.link)
        (parent / name / "manifest.json").unlink()
        manifest = pattern.manifest.model_copy(update={"run": name, "started_at": started})
        (parent / name / "manifest.json").write_text(Manifest.model_dump_json(manifest))
    shutil.rmtree(parent / ".pattern")


def page_ms(url: str) -> tuple[float, str]:
    """How long a page takes, and the page."""
    began = time.perf_counter()
    with urllib.request.urlopen(url, timeout=300) as answer:
        text = answer.read().decode()
    return 1_000 * (time.perf_counter() - began), text


def main() -> None:
    """Prints a line for each page, and whether the goal holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--pages", type=int, default=20, help="of each kind, behind the first")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "runs"
        folder.mkdir()
        make_runs(folder, options.runs)
        command = [str(Path(sys.executable).parent / "pgdyno"), "serve", str(folder), "--listen", ":0"]
        environment = {**os.environ, "PGDYNO_HOME": str(Path(place) / "home"), "PYTHONUNBUFFERED": "1"}
        server = subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            assert server.stdout is not None
            url = next(found[0] for line in server.stdout if (found := re.search(r"http://[\d.:]+", line)))
            time.sleep(START_S)
            first_ms, text = page_ms(url)
            assert text.count('name="run"') == options.runs
            print(f"{options.runs:,} runs, the first page: {first_ms:,.0f} ms, {len(text) / 1e6:.2f} MB")
            list_ms = statistics.median(page_ms(url)[0] for _ in range(options.pages))
            search_ms = statistics.median(page_ms(f"{url}/?q=large&version=18")[0] for _ in range(options.pages))
        finally:
            server.terminate()
            server.wait(60)
    print(f"the list: {list_ms:.0f} ms; a search: {search_ms:.0f} ms")
    reached = "reached" if max(first_ms, list_ms, search_ms) <= GOAL_MS else "not reached"
    print(f"goal: a list of {options.runs:,} runs in at most {GOAL_MS} ms: {reached}")


if __name__ == "__main__":
    main()
