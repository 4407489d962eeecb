"""Executes events of the plan during a trial: each at its time, in a thread of its own.

The trial's own thread keeps reading the engine's events, so a long plan event delays nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from pgdyno.errors import PgdynoError
from pgdyno.plan.model import EventSpec
from pgdyno.records import EventOutcome, EventRecord, Failure, FailureId, Stage
from pgdyno.run.load_level import LevelBefore, Second, is_steady
from pgdyno.run.process import Event, among
from pgdyno.units import format_duration


class Cutoff:
    """A one-way flag that any thread can read and wait for."""

    def __init__(self) -> None:
        self._cut = threading.Event()
        self._lock = threading.Lock()
        self._stops: list[Callable[[], object]] = []

    def is_cut(self) -> bool:
        return self._cut.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait up to the timeout; return whether the trial is over."""
        return self._cut.wait(seconds)

    @contextmanager
    def stop_at_end(self, stop: Callable[[], object]) -> Iterator[None]:
        """Call `stop`, from another thread or at once, if the trial ends during the block."""
        with self._lock:
            self._stops.append(stop)
            late = self._cut.is_set()
        try:
            if late:
                stop()
            yield
        finally:
            with self._lock:
                self._stops.remove(stop)

    def cut(self) -> None:
        with self._lock:
            self._cut.set()
            stops = list(self._stops)
        for stop in stops:
            stop()


Act = Callable[[EventSpec, Cutoff], str | None]
"""Executes an event until it is done or the trial is over; returns a description.

Raises PgdynoError, psycopg.Error or OSError.
"""
Undo = Callable[[EventSpec, Cutoff], None]
"""Undoes an event. Raises PgdynoError."""
RECOVERY_S = 60.0
"""How long the load waits to be as before its events."""
STEADY_S = 60.0
"""How long an event waits for a steady load."""

KIND = "plan_event"
"""The kind of plan events in the table of events."""


@dataclass(frozen=True, slots=True)
class _Clock:
    """Converts between this machine's monotonic clock and the engine's times."""

    origin: float
    """The start of the load (`origin_us`) on the monotonic clock, seconds."""
    origin_us: int
    warmup_s: float

    def due(self, event: EventSpec) -> float:
        return self.origin + self.warmup_s + event.at

    def measured_s(self, at: float) -> float:
        """Return the seconds since the start of measuring."""
        return at - self.origin - self.warmup_s

    def t_us(self, at: float) -> int:
        return self.origin_us + round((at - self.origin) * 1e6)


@dataclass(frozen=True, slots=True)
class Operations:
    """What events need besides their action."""

    undo: Undo = lambda _event, _cutoff: None
    invalid_indexes: Callable[[], set[str]] = set
    waits_s: Mapping[int, float] = field(default_factory=dict)
    """In a control, how long it waits in place of these events, by their place in the plan."""
    until_recovered: bool = False
    """Whether events wait for a steady load, and the load for its recovery."""


class Injector:
    """Executes the plan's events in one trial.

    It is a context manager around the trial: after the block no event continues, and all are undone, however the trial
    ended.
    """

    def __init__(self, events: Sequence[EventSpec], act: Act, operations: Operations | None = None) -> None:
        """No event begins before the engine reports the start of the load: see `handle`."""
        self._act = act
        self._operations = operations or Operations()
        self._cutoff = Cutoff()
        self._threads: list[threading.Thread] = []
        self._start: Event | None = None
        self._clock: _Clock | None = None
        self._seconds: list[Second] = []
        self._specs = list(events)
        self._to_undo: list[int] = []
        self._invalid_before: set[str] | None = None
        self.left: list[str] = []
        """What events left on the server, in words."""
        self.records = [
            _record(number, event, EventOutcome.NOT_REACHED, None) for number, event in enumerate(events, start=1)
        ]
        """The events in the plan's order; final after the block."""

    def __enter__(self) -> Injector:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop_and_undo()

    def handle(self, event: Event) -> None:
        """Receives an event of the engine; `connected` starts the clock."""
        if event["event"] == "start":
            self._start = event
        elif event["event"] == "interval" and self._operations.until_recovered:
            self._seconds.append(Second.from_events(event))
        elif event["event"] == "connected" and self._start is not None and self._clock is None:
            since_start_s = time.time() - self._start["epoch_us"] / 1e6
            origin = time.monotonic() - since_start_s + event["origin_us"] / 1e6
            self._clock = _Clock(origin, event["origin_us"], self._start["warmup_s"])
            for place in range(len(self._specs)):
                thread = threading.Thread(
                    target=self._inject_event, args=(place, self._clock), name=f"event-{place + 1}"
                )
                self._threads.append(thread)
                thread.start()

    @property
    def is_over(self) -> bool:
        """Whether the load may end early: all events have ended, and the load is as before, or does not recover."""
        if (
            not self._operations.until_recovered
            or self._clock is None
            or any(map(threading.Thread.is_alive, self._threads))
        ):
            return False
        spans_s = [
            (each.began_s, each.began_s + (each.seconds or 0)) for each in self.records if each.began_s is not None
        ]
        if not spans_s or any(each.outcome is not EventOutcome.DONE for each in self.records):
            return True
        first_us, last_us = (
            (self._clock.warmup_s + at_s) * 1e6 for at_s in (min(spans_s)[0], max(end for _, end in spans_s))
        )
        assert self._start is not None
        calm = [each for each in self._seconds if each.is_whole and each.to_us <= first_us]
        before = LevelBefore.from_events(calm, is_open=self._start.get("rate_per_s") is not None)
        waited_s = (self._seconds[-1].to_us - last_us) / 1e6 if self._seconds else 0.0
        return waited_s > RECOVERY_S or before.reached_us(self._seconds, last_us) is not None

    def finish(self) -> None:
        """Undo the events after the load, and execute those of a control without it."""
        self._stop_and_undo()
        for place in self._operations.waits_s:
            if self.records[place].outcome is EventOutcome.DONE:
                self._execute_alone(place)

    def _execute_alone(self, place: int) -> None:
        spec, cutoff = self._specs[place], Cutoff()
        results: list[tuple[EventOutcome, str | None, float]] = []
        # a signal that interrupts a statement here would leave it in the server
        thread = threading.Thread(target=lambda: results.append(self._execute(spec, cutoff)), name="event-alone")
        self._to_undo.append(place)
        thread.start()
        try:
            while thread.is_alive():
                thread.join(0.2)
        finally:
            cutoff.cut()
            thread.join()
            self._undo()
        outcome, message, seconds = results[0]
        told = f"without load: {message}" if outcome is not EventOutcome.DONE else self.records[place].message
        changes = {"outcome": outcome, "message": told, "alone_s": seconds}
        self.records[place] = self.records[place].model_copy(update=changes)

    def _stop_and_undo(self) -> None:
        self._cutoff.cut()
        for thread in self._threads:
            thread.join()
        self._undo()

    def _undo(self) -> None:
        while self._to_undo:
            place = self._to_undo.pop()
            spec = self._specs[place]
            try:
                self._operations.undo(spec, Cutoff())
            except PgdynoError as error:
                if self.records[place].outcome is EventOutcome.DONE:
                    self.left.append(f"what {spec.name} did, because undo failed: {error.message}")
            except BaseException:
                self.left.append(f"what {spec.name} did, because undo was interrupted: {spec.undo}")
                raise
        if self._invalid_before is not None:
            with suppress(PgdynoError):
                self.left += [
                    f"INVALID index {name}" for name in self._operations.invalid_indexes() - self._invalid_before
                ]
            self._invalid_before = None

    def put_among(self, events: Sequence[Event]) -> Sequence[Event]:
        """Merge the plan's events into the engine's `events` by time; none follows its `end`."""
        if self._clock is None or not self._specs:
            return events
        clock = self._clock
        return among(events, [_event(record, clock) for record in self.records if record.began_s is not None])

    def _inject_event(self, place: int, clock: _Clock) -> None:
        spec = self._specs[place]
        if self._cutoff.wait(max(0.0, clock.due(spec) - time.monotonic())):
            return
        while self._operations.until_recovered and time.monotonic() < clock.due(spec) + STEADY_S:
            if is_steady(self._seconds):
                break
            if self._cutoff.wait(0.2):
                return
        began = time.monotonic()
        if place in self._operations.waits_s:
            was_cut = self._cutoff.wait(self._operations.waits_s[place])
            outcome, message = EventOutcome.UNFINISHED if was_cut else EventOutcome.DONE, None
            seconds = round(time.monotonic() - began, 6)
        else:
            self._to_undo.append(place)
            outcome, message, seconds = self._execute(spec, self._cutoff)
        times = (round(clock.measured_s(began), 6), seconds)
        record = _record(place + 1, spec, outcome, message, times)
        self.records[place] = record.model_copy(update={"is_control": place in self._operations.waits_s})

    def _execute(self, spec: EventSpec, cutoff: Cutoff) -> tuple[EventOutcome, str | None, float]:
        # not at the top of the module: commands that only read plans need no psycopg
        import psycopg

        limited = Cutoff()
        timer = None if spec.limit is None else threading.Timer(spec.limit, limited.cut)
        if spec.sql is not None and self._invalid_before is None:
            with suppress(PgdynoError, psycopg.Error):
                self._invalid_before = self._operations.invalid_indexes()
        began = time.monotonic()
        outcome, message = EventOutcome.DONE, None
        try:
            with cutoff.stop_at_end(limited.cut):
                if timer is not None:
                    timer.start()
                message = self._act(spec, limited)
        except (PgdynoError, psycopg.Error, OSError) as error:
            outcome = EventOutcome.FAILED
            message = error.message if isinstance(error, PgdynoError) else str(error).strip()
        finally:
            if timer is not None:
                timer.cancel()
        if outcome is EventOutcome.FAILED and cutoff.is_cut():
            outcome = EventOutcome.UNFINISHED
        elif outcome is EventOutcome.FAILED and limited.is_cut():
            message = f"canceled after {format_duration(spec.limit or 0)}, its limit"
        return outcome, message, round(time.monotonic() - began, 6)


def failure_of_events(records: Sequence[EventRecord], left: Sequence[str] = ()) -> Failure | None:
    """Return why the trial is invalid without some of its events, or for what they `left`; None if neither."""
    wrong = next((each for each in records if each.outcome in (EventOutcome.FAILED, EventOutcome.NOT_REACHED)), None)
    if wrong is None:
        words = f"left on the server: {'; '.join(left)}"
        return Failure(stage=Stage.RUN, id=FailureId.UNDO_FAILED, message=words) if left else None
    which = f"event {wrong.number} of the plan ({wrong.do} at {format_duration(wrong.at_s)})"
    if wrong.outcome is EventOutcome.FAILED:
        message = "; ".join([f"{which} failed: {wrong.message}", *([f"left: {', '.join(left)}"] if left else [])])
        return Failure(stage=Stage.RUN, id=FailureId.EVENT_FAILED, message=message)
    return Failure(
        stage=Stage.RUN,
        id=FailureId.EVENT_NOT_REACHED,
        message=f"the trial ended before {which}",
        hint="make the trial longer, or the event earlier",
    )


def _record(
    number: int, spec: EventSpec, outcome: EventOutcome, message: str | None, times: tuple[float, float] | None = None
) -> EventRecord:
    began_s, seconds = times or (None, None)
    return EventRecord(
        number=number,
        do=spec.name,
        command=spec.command or spec.sql,
        at_s=spec.at,
        began_s=began_s,
        seconds=seconds,
        outcome=outcome,
        message=message,
    )


def _event(record: EventRecord, clock: _Clock) -> Event:
    began = clock.origin + clock.warmup_s + (record.began_s or 0.0)
    return {
        "event": KIND,
        "t_us": clock.t_us(began),
        "number": record.number,
        "do": record.do,
        "at_s": record.at_s,
        "began_s": record.began_s,
        "seconds": record.seconds,
        "outcome": record.outcome.value,
        "message": record.message,
    }
