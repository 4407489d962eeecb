"""The run journal: the progress of a run, one line of JSON per event, for viewers.

`journal.jsonl` in the run folder. A line is written atomically and has `e` (its kind) and `t` (seconds since 1970).
Reading the run does not need it: the measurements are in the trials.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from pgdyno.live.control import Control
from pgdyno.messages import Message
from pgdyno.report.run_events import (
    BestSeen,
    BytesDone,
    EngineReported,
    IntervalEnded,
    Looked,
    MarkedMoment,
    Noted,
    RowsDone,
    RunBegan,
    RunEnded,
    RunEvent,
    SetUp,
    TrialEnded,
    TrialStarted,
)
from pgdyno.report.terminal.progress import LiveView, TimeLeft

JOURNAL = "journal.jsonl"
PROGRESS_S = 0.5
"""Interval between progress reports of a transfer or a load."""
TOLD = frozenset(["error", "outage", "event"])
"""Events of the engine that are copied unchanged, except for long fields."""
Line = bytes
LONGEST = 500
"""Characters of a message."""


class JournalView(LiveView):
    """Writes events to the run journal and passes each on to another view.

    It is also the run's `Requests`: those of the live page, once the run has a folder to take them in.
    """

    def __init__(
        self, view: LiveView, on_began: Callable[[Path], None] = lambda _folder: None, *, controlled: bool = False
    ) -> None:
        """Pass events on to `view`; call `on_began` with the run's folder as soon as there is one.

        If the run is `controlled`, those who watch may mark moments and stop it.
        """
        self._view = view
        self._on_began = on_began
        self._controlled = controlled
        self._control: Control | None = None
        self._file: BinaryIO | None = None
        self._waiting: list[Line] = []
        self._lock = threading.Lock()
        self._left = TimeLeft(time.monotonic)
        self._progress_written_s = 0.0

    def __enter__(self) -> Self:
        self._view.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._control is not None:
            self._control.close()
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None
        self._view.__exit__(kind, error, trace)

    def event(self, event: RunEvent) -> None:
        """Write the line of `event`, then pass it on."""
        if isinstance(event, RunBegan):
            self._open(event)
        elif isinstance(event, Looked):
            self._write_event("look", **asdict(event))
        elif isinstance(event, BestSeen):
            self._write_event("best", **asdict(event))
        else:
            self._record(event)
        self._view.event(event)
        if isinstance(event, RunBegan):
            self._on_began(event.folder)

    def _open(self, began: RunBegan) -> None:
        path = began.folder / JOURNAL
        try:
            self._file = path.open("ab", buffering=0)
        except OSError as error:
            self._view.event(Noted(f"this run cannot be watched: cannot write {path}: {error.strerror}"))
        for line in self._waiting:
            self._write(line)
        self._waiting.clear()
        planned = [[each.number, each.slug, each.arm, each.clients] for each in began.trials]
        self._write_event("run", trials=planned, control=self._controlled)
        if self._controlled:
            self._control = Control.open(began.folder, lambda what, text: self._write_event(what, text=text))

    def _record(self, event: RunEvent) -> None:
        match event:
            case SetUp(text):
                self._write_event("prepare", text=text)
            case BytesDone(done, total):
                self._write_progress(done == total, done=done, total=total)
            case RowsDone(done, total, per_s, left_s):
                self._write_progress(done >= total, done=done, total=total, per_s=per_s, left_s=left_s)
            case TrialStarted(number, total, label, seconds, later, is_over, is_open):
                self._left.trial_started(later, seconds, is_over=is_over)
                known, left = None if is_open else total, self._left.left_s()
                self._write_event("trial", n=number, total=known, label=label, seconds=seconds, left_s=left)
            case IntervalEnded(tps, p99_ms, phase):
                self._write_event("second", tps=round(tps, 1), p99=p99_ms, phase=phase)
            case TrialEnded(outcome, tps, p99_ms, composite):
                of_tpch = {} if composite is None else {"composite": composite}
                self._write_event("ended", outcome=outcome.value, tps=tps, p99=p99_ms, **of_tpch)
            case Noted(text, message):
                with_id = {} if message is None else {"id": message.id, "parameters": message.parameters}
                self._write_event("note", text=text, **with_id)
            case EngineReported(reported):
                self._record_engine(reported)
            case RunEnded(how, outcome):
                self._write_event("end", how=how, outcome=outcome.value)

    def _record_engine(self, event: Mapping[str, Any]) -> None:
        if event["event"] == "interval":
            self._write_event("health", **_health(event))
        elif event["event"] in TOLD:
            self._write_event("engine", what=event["event"], text=_words(event))

    def stop_wanted(self) -> Message | None:
        """Return why no further trial should begin, if somebody asked for that on the live page."""
        return self._control.stop_wanted if self._control else None

    def marks(self) -> list[MarkedMoment]:
        """Return what was marked on the live page since the last call."""
        return self._control.marks() if self._control else []

    def _write_progress(self, is_done: bool, **fields: object) -> None:
        now = time.monotonic()
        if is_done or now - self._progress_written_s >= PROGRESS_S:
            self._progress_written_s = now
            self._write_event("progress", **fields)

    def _write_event(self, kind: str, **fields: object) -> None:
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
            # another check reports a full disk: the run continues without a journal
            self._file.close()
            self._file = None


def _health(event: Mapping[str, Any]) -> dict[str, object]:
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
    else:
        words = str(event.get("message") or event.get("do") or "an event")
    return words[:LONGEST]
