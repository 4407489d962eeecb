"""Ends an engine whose server has fallen silent; statements may take hours, so they have no time limit."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Protocol

from pgdyno.programs import Engine
from pgdyno.run.process import STOP_S, Event, Load, Running

_ASK_EVERY_S = 0.5


class Silence(Protocol):
    """Measures how long a server has sent nothing."""

    def renew(self) -> None:
        """Records that the server answered."""

    def reason(self) -> str | None:
        """Returns why no answer can be expected, or None; may take as long as a query to the server."""


class Vigil:
    """Watches a server while an engine uses it."""

    def __init__(self, silence: Callable[[], Silence]) -> None:
        """`silence` is called when the engine starts, and counts from then."""
        self._silence = silence
        self.reason: str | None = None
        """Why the engine was ended; None if it was not."""

    def over(self, running: Running) -> Running:
        """Returns `running`, but with an engine that is stopped when its server has fallen silent.

        It first sends SIGINT, then SIGKILL.
        """

        @contextmanager
        def watched(
            engine: Engine,
            options: Sequence[str],
            environment: Mapping[str, str],
            errors: IO[bytes],
            folder: Path | None,
        ) -> Iterator[tuple[Load, Iterator[Event]]]:
            ended = threading.Event()
            with running(engine, options, environment, errors, folder) as (load, events):
                silence = self._silence()
                thread = threading.Thread(target=self._watch, args=(load, silence, ended), name="vigil", daemon=True)
                thread.start()
                try:
                    yield load, _renewing(events, silence)
                finally:
                    ended.set()

        return watched

    def _watch(self, load: Load, silence: Silence, ended: threading.Event) -> None:
        while not ended.wait(_ASK_EVERY_S):
            reason = silence.reason()
            if reason is not None and not ended.is_set():
                self.reason = reason
                load.send_signal(signal.SIGINT)
                if not ended.wait(STOP_S) and isinstance(load, subprocess.Popen):
                    load.kill()
                return


def _renewing(events: Iterator[Event], silence: Silence) -> Iterator[Event]:
    rows = None
    for event in events:
        # these events come once a second, whether the server answers or not
        if event["event"] == "interval":
            moved = any(script["succeeded"] + script["failed"] for script in event["scripts"])
        else:
            moved = event["event"] != "load" or event.get("rows") != rows
            rows = event.get("rows")
        if moved:
            silence.renew()
        yield event
