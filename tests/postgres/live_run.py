"""A run with its live page: `pgdyno run --live`."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from pgdyno.targets import Home
from tests.postgres.runs import fast_plan, pgdyno_process
from tests.present import present
from tests.processes import command_line, processes_with
from tests.waiting import wait_until

PATIENCE_S = 240.0


@dataclass
class LiveRun:
    """The process of the run, and the address of its page."""

    process: subprocess.Popen[bytes]
    url: str

    @property
    def host(self) -> str:
        return self.url.partition("/live/")[0]

    def form(self) -> str:
        """The token in the page's `data-form`, which its requests must contain."""
        found = present(re.search(r'data-form="([^"]+)"', httpx2.get(self.url, timeout=PATIENCE_S).text))
        return found[1]

    def ask(self, what: str, text: str = "", **headers: str) -> httpx2.Response:
        """Sends a request as the page does; `headers` replace the page's, and empty ones are left out."""
        given = {
            "origin": self.host,
            "x-pgdyno-form": self.form(),
            **{k.replace("_", "-"): v for k, v in headers.items()},
        }
        given = {name: value for name, value in given.items() if value}
        return httpx2.post(f"{self.url}/ask", json={"what": what, "text": text}, headers=given, timeout=PATIENCE_S)

    def end(self) -> int:
        return self.process.wait(PATIENCE_S)


def messages(url: str) -> Generator[tuple[str, dict[str, Any]], None, None]:
    """Yields the messages that the page receives, from now on until the end."""
    with httpx2.stream("GET", f"{url}/stream", timeout=PATIENCE_S) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        kind = ""
        for line in stream.iter_lines():
            if line.startswith("event: "):
                kind = line.removeprefix("event: ")
            elif line.startswith("data: "):
                yield kind, json.loads(line.removeprefix("data: "))


def watched_plan(folder: Path, script: str = "tpcb-like", clients: str = "2", seconds: int = 3, more: str = "") -> Path:
    workload, sweep = f'scripts = ["{script}"]\nscale = 1', f"clients = [{clients}]\nrate = 200"
    trial = f'warmup = "1s"\nduration = "{seconds}s"\norder = "as-listed"\n{more}'
    plan = folder / "watched.toml"
    plan.write_text(fast_plan(workload, sweep, trial, targets="ab").replace('"small"', '"watched"'))
    return plan


@contextmanager
def live_run(home: Home, folder: Path, plan: Path, *options: str) -> Iterator[LiveRun]:
    """Runs `pgdyno run --live`; yields once the page is available, and ends the run after the block."""
    with pgdyno_process(home, folder, "run", str(plan), "--live", "--no-preflight", *options) as process:
        printed, announced = folder / "said", re.compile(r"^live: (\S+)\n", re.MULTILINE)
        try:
            wait_until(lambda: process.poll() is not None or announced.search(printed.read_text()), PATIENCE_S)
            found = announced.search(printed.read_text())
            assert found, printed.read_text()
            yield LiveRun(process, found[1])
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.wait(60)
            for pid in background_servers(folder):
                os.kill(pid, signal.SIGTERM)


def background_servers(folder: Path) -> list[int]:
    """Returns the process ids of live pages' background servers for runs in `folder`."""
    name = b"pgdyno.live.server.background_server"
    return [each for each in processes_with(b"\0" + os.fsencode(folder)) if name in command_line(each)]
