"""Executes events of the plan during a trial: each at its time, in a thread of its own.

The trial's own thread keeps reading the engine's events, so a long plan event delays nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType

from pgdyno.errors import PgdynoError
from pgdyno.plan.model import EventSpec
from pgdyno.records import EventOutcome, EventRecord, Failure, FailureId, Stage
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
    def stopping(self, stop: Callable[[], object]) -> Iterator[None]:
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


class Injector:
    """Executes the plan's events in one trial.

    It is a context manager around the trial: after the block no event continues, however the trial ended.
    """

    def __init__(self, events: Sequence[EventSpec], act: Act) -> None:
        """No event begins before the engine reports the start of the load: see `handle`."""
        self._act = act
        self._cutoff = Cutoff()
        self._threads: list[threading.Thread] = []
        self._start: Event | None = None
        self._clock: _Clock | None = None
        self._specs = list(events)
        self.records = [
            _record(number, event, EventOutcome.NOT_REACHED, None) for number, event in enumerate(events, start=1)
        ]
        """The events in the plan's order; final after the block."""

    def __enter__(self) -> Injector:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop running events, and wait for their end."""
        self._cutoff.cut()
        for thread in self._threads:
            thread.join()

    def handle(self, event: Event) -> None:
        """Receives an event of the engine; `connected` starts the clock."""
        if event["event"] == "start":
            self._start = event
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

    def put_among(self, events: Sequence[Event]) -> Sequence[Event]:
        """Merge the plan's events into the engine's `events` by time; none follows its `end`."""
        if self._clock is None or not self._specs:
            return events
        clock = self._clock
        return among(events, [_event(record, clock) for record in self.records if record.began_s is not None])

    def _inject_event(self, place: int, clock: _Clock) -> None:
        # not at the top of the module: commands that only read plans need no psycopg
        import psycopg

        spec = self._specs[place]
        if self._cutoff.wait(max(0.0, clock.due(spec) - time.monotonic())):
            return
        began = time.monotonic()
        outcome, message = EventOutcome.DONE, None
        try:
            message = self._act(spec, self._cutoff)
        except (PgdynoError, psycopg.Error, OSError) as error:
            outcome = EventOutcome.FAILED
            message = error.message if isinstance(error, PgdynoError) else str(error).strip()
        if outcome is EventOutcome.FAILED and self._cutoff.is_cut():
            outcome = EventOutcome.UNFINISHED
        times = (round(clock.measured_s(began), 6), round(time.monotonic() - began, 6))
        self.records[place] = _record(place + 1, spec, outcome, message, times)


def failure_of_events(records: Sequence[EventRecord]) -> Failure | None:
    """Return why the trial is invalid without some of its events; None if all were executed."""
    wrong = next((each for each in records if each.outcome in (EventOutcome.FAILED, EventOutcome.NOT_REACHED)), None)
    if wrong is None:
        return None
    which = f"event {wrong.number} of the plan ({wrong.do} at {format_duration(wrong.at_s)})"
    if wrong.outcome is EventOutcome.FAILED:
        return Failure(stage=Stage.RUN, id=FailureId.EVENT_FAILED, message=f"{which} failed: {wrong.message}")
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
        command=spec.command,
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
