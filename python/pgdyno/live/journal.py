"""The journal of a run: what it says while it goes on, a line of JSON each, for those who watch.

`journal.jsonl` in the run folder. A line is written whole and has `e` (its kind) and `t` (seconds since 1970). Nobody
needs it to read the run: what was measured is in the trials.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from pgdyno.live.control import Control
from pgdyno.records import Outcome
from pgdyno.report.live import LiveView, Mark, Planned, TimeLeft

JOURNAL = "journal.jsonl"
PROGRESS_S = 0.5
"""How often the progress of a transfer or a load is told."""
TOLD = frozenset(["error", "outage", "worker_added", "workers_chosen", "event"])
"""Events of the engine that are told as they are, but for what is long in them."""
Line = bytes
LONGEST = 500
"""Characters of a message."""


class JournalView:
    """A view that keeps a journal of what it hears, and hands everything on to another one."""

    def __init__(
        self, view: LiveView, on_began: Callable[[Path], None] = lambda _folder: None, *, controlled: bool = False
    ) -> None:
        """Hands on to `view`; `on_began` is called with the run's folder when there is one.

        `controlled`: those who watch may mark moments and stop the run.
        """
        self._view = view
        self._on_began = on_began
        self._controlled = controlled
        self._control: Control | None = None
        self._file: BinaryIO | None = None
        self._waiting: list[Line] = []
        self._lock = threading.Lock()
        self._left = TimeLeft(time.monotonic)
        self._said_progress = 0.0

    def __enter__(self) -> Self:
        """Begin to show."""
        self._view.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End, whatever happened."""
        if self._control is not None:
            self._control.close()
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None
        self._view.__exit__(kind, error, trace)

    def run_began(self, folder: Path, trials: Sequence[Planned]) -> None:
        """From here on there is a file to write to."""
        try:
            self._file = (folder / JOURNAL).open("ab", buffering=0)
        except OSError as error:
            self._view.note(f"nobody can watch this run: cannot write {folder / JOURNAL}: {error.strerror}")
        for line in self._waiting:
            self._write(line)
        self._waiting.clear()
        planned = [[each.number, each.slug, each.arm, each.clients] for each in trials]
        self._say("run", trials=planned, control=self._controlled)
        if self._controlled:
            self._control = Control.open(folder, lambda what, text: self._say(what, text=text))
        self._view.run_began(folder, trials)
        self._on_began(folder)

    def set_up(self, text: str) -> None:
        """What is being prepared."""
        self._say("prepare", text=text)
        self._view.set_up(text)

    def bytes(self, done: int, total: int | None) -> None:
        """How far a transfer is."""
        if self._is_time(done == total):
            self._say("progress", done=done, total=total)
        self._view.bytes(done, total)

    def rows(self, done: int, total: int, per_s: float, left_s: float) -> None:
        """How far a load is."""
        if self._is_time(done >= total):
            self._say("progress", done=done, total=total, per_s=per_s, left_s=left_s)
        self._view.rows(done, total, per_s, left_s)

    def trial_started(
        self, number: int, total: int, label: str, seconds: float | None, later: int | None = None
    ) -> None:
        """A trial begins."""
        behind = total - number if later is None else later
        self._left.trial_started(behind, seconds)
        self._say("trial", n=number, total=total, label=label, seconds=seconds, left_s=self._left.left_s())
        self._view.trial_started(number, total, label, seconds, later)

    def interval(self, tps: float, p99_ms: float | None, phase: str = "") -> None:
        """A second of the trial."""
        self._say("second", tps=round(tps, 1), p99=p99_ms, phase=phase)
        self._view.interval(tps, p99_ms, phase)

    def trial_ended(self, outcome: Outcome, tps: float | None, p99_ms: float | None) -> None:
        """The trial is over."""
        self._say("ended", outcome=outcome.value, tps=tps, p99=p99_ms)
        self._view.trial_ended(outcome, tps, p99_ms)

    def note(self, text: str) -> None:
        """Something that stays."""
        self._say("note", text=text)
        self._view.note(text)

    def heard(self, event: Mapping[str, Any]) -> None:
        """The engine's health with every interval; errors and what happens to it."""
        if event["event"] == "interval":
            self._say("health", **_health(event))
        elif event["event"] in TOLD:
            self._say("engine", what=event["event"], text=_words(event))
        self._view.heard(event)

    def run_ended(self, how: str, outcome: Outcome) -> None:
        """The last line."""
        self._say("end", how=how, outcome=outcome.value)
        self._view.run_ended(how, outcome)

    def stop_wanted(self) -> str | None:
        """Whether the page was asked to."""
        return self._control.stop_wanted if self._control else self._view.stop_wanted()

    def marks(self) -> list[Mark]:
        """What was marked on the page."""
        return self._control.marks() if self._control else self._view.marks()

    def _is_time(self, done: bool) -> bool:
        now = time.monotonic()
        if not done and now - self._said_progress < PROGRESS_S:
            return False
        self._said_progress = now
        return True

    def _say(self, kind: str, **fields: object) -> None:
        line = json.dumps({"e": kind, "t": round(time.time(), 3), **fields}, separators=(",", ":")).encode() + b"\n"
        with self._lock:
            if self._file is None:
                self._waiting.append(line)
            else:
                self._write(line)

    def _write(self, line: Line) -> None:
        if self._file is None:
            return
        try:
            self._file.write(line)
        except OSError:
            # a full disk is the guard's business: the run goes on unwatched
            self._file.close()
            self._file = None


def _health(event: Mapping[str, Any]) -> dict[str, object]:
    """How near the generator is to its ceiling: its busiest thread, and the worst lag behind the schedule."""
    workers = event.get("workers") or []
    lags = [each["lag_ns"]["max"] for each in workers if each.get("lag_ns")]
    return {
        "busy": max((each.get("cpu_share") or 0.0 for each in workers), default=None),
        "workers": len(workers),
        "lag_ms": round(max(lags) / 1e6, 3) if lags else None,
        "late_ms": max((each.get("late_us") or 0 for each in workers), default=0) / 1e3,
        "clients": event.get("clients"),
        "failed": sum(script["failed"] for script in event["scripts"]),
    }


def _words(event: Mapping[str, Any]) -> str:
    if event["event"] == "error":
        words = f"{event.get('consequence') or 'failed'}: {event.get('message') or 'an error'}"
    elif event["event"] == "outage":
        words = f"outage {event.get('number', '')} {event.get('state', '')}"
    elif event["event"] == "workers_chosen":
        words = f"{event.get('workers')} threads chosen of {len(event.get('tried') or ())} numbers tried"
    elif event["event"] == "worker_added":
        words = (
            f"worker {event.get('worker')} added: another used {100 * (event.get('cpu_share') or 0):.0f} % of a core"
        )
    else:
        words = str(event.get("message") or event.get("do") or "an event")
    return words[:LONGEST]
