"""Events of the plan in the midst of a trial: each at its instant, in a thread of its own.

The trial's own thread reads what the engine says all the while: an event that takes long delays nobody.
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
from pgdyno.records import EventOutcome, EventRecord, Failure, Stage
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
        """Waits up to the timeout; returns whether the trial is over."""
        return self._cut.wait(seconds)

    @contextmanager
    def stopping(self, stop: Callable[[], object]) -> Iterator[None]:
        """Calls `stop`, from another thread or at once, if the trial ends during the block."""
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
        """Signals the end."""
        with self._lock:
            self._cut.set()
            stops = list(self._stops)
        for stop in stops:
            stop()


Act = Callable[[EventSpec, Cutoff], str | None]
"""Does an event, until it is done or the trial over; gives back what there is to say of it, or raises PgdynoError,
psycopg.Error or OSError."""

KIND = "plan_event"
"""What the table of events calls them."""


@dataclass(frozen=True, slots=True)
class _Clock:
    """From this machine's monotonic clock to the engine's times."""

    origin: float
    """The start of the load (`origin_us`) on the monotonic clock, seconds."""
    origin_us: int
    warmup_s: float

    def due(self, event: EventSpec) -> float:
        """When `event` is to begin, on the monotonic clock."""
        return self.origin + self.warmup_s + event.at

    def measured_s(self, at: float) -> float:
        """Seconds from the start of measuring."""
        return at - self.origin - self.warmup_s

    def t_us(self, at: float) -> int:
        """Microseconds since the engine's start."""
        return self.origin_us + round((at - self.origin) * 1e6)


class Injector:
    """The events of one trial.

    Used as a context around the trial: behind it no event goes on, whatever ended the trial.
    """

    def __init__(self, events: Sequence[EventSpec], act: Act) -> None:
        """Nothing happens before the engine says that the load begins: see `heard`."""
        self._act = act
        self._cutoff = Cutoff()
        self._threads: list[threading.Thread] = []
        self._start: Event | None = None
        self._clock: _Clock | None = None
        self._specs = list(events)
        self.records = [
            _record(number, event, EventOutcome.NOT_REACHED, None) for number, event in enumerate(events, start=1)
        ]
        """In the plan's order; final behind the context."""

    def __enter__(self) -> Injector:
        """Itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stops what goes on, and waits for it."""
        self._cutoff.cut()
        for thread in self._threads:
            thread.join()

    def heard(self, event: Event) -> None:
        """Takes note of what the engine says; its `connected` starts the clock."""
        if event["event"] == "start":
            self._start = event
        elif event["event"] == "connected" and self._start is not None and self._clock is None:
            since_start_s = time.time() - self._start["epoch_us"] / 1e6
            origin = time.monotonic() - since_start_s + event["origin_us"] / 1e6
            self._clock = _Clock(origin, event["origin_us"], self._start["warmup_s"])
            for place in range(len(self._specs)):
                thread = threading.Thread(target=self._one, args=(place, self._clock), name=f"event-{place + 1}")
                self._threads.append(thread)
                thread.start()

    def put_among(self, events: Sequence[Event]) -> list[Event]:
        """`events` of the engine with ours where they belong in time; nothing comes behind its `end`."""
        if self._clock is None:
            return list(events)
        clock = self._clock
        return among(events, [_event(record, clock) for record in self.records if record.began_s is not None])

    def _one(self, place: int, clock: _Clock) -> None:
        # not with the module: whoever only looks at plans needs no psycopg
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
    """Why a trial without its events is none; None when all came."""
    wrong = next((each for each in records if each.outcome in (EventOutcome.FAILED, EventOutcome.NOT_REACHED)), None)
    if wrong is None:
        return None
    which = f"event {wrong.number} of the plan ({wrong.do} at {format_duration(wrong.at_s)})"
    if wrong.outcome is EventOutcome.FAILED:
        return Failure(stage=Stage.RUN, message=f"{which} failed: {wrong.message}")
    hint = "make the trial longer, or the event earlier"
    return Failure(stage=Stage.RUN, message=f"the trial ended before {which}", hint=hint)


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
