"""One load of several generators: started at one instant, followed, stopped; and the offsets of their clocks."""

import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from typing import IO

from pgdyno.generators.generator_protocol import HEARTBEAT_S, SILENCE_S, EngineOutput, Generator, LostError
from pgdyno.generators.merge_events import Event, Merger
from pgdyno.generators.shared_load import Shared
from pgdyno.run.process import read_events

ROUNDS = 9


@dataclass(frozen=True, slots=True)
class Offset:
    ahead_us: int
    """How far it is ahead of the local clock."""
    round_trip_us: int
    """The fastest round trip; half of it bounds the error of the offset."""


def measure_offset(ask: Callable[[], int], rounds: int = ROUNDS) -> Offset:
    """Measure an offset (Cristian 1989); `ask` returns the other clock in µs since 1970."""
    found = []
    for _ in range(rounds):
        before, wall_us = time.monotonic_ns(), time.time_ns() // 1000
        other_us = ask()
        trip_us = (time.monotonic_ns() - before) // 1000
        found.append(Offset(other_us - wall_us - trip_us // 2, trip_us))
    return min(found, key=lambda offset: offset.round_trip_us)


OVERDUE_S = 2 * SILENCE_S
"""A generator without any data for so long is lost, too: its connection may be stuck undetected."""
LEAD_US = 1_000_000
"""The time between the order to start and the start itself."""
INTERRUPTED = "interrupted"
"""The outcome of an engine that was stopped, or the reason if that was before its start."""


@dataclass(slots=True)
class _State:
    generator: Generator
    before: Offset
    answered_s: float = inf
    """When it last answered, by the monotonic clock; infinite before the first call."""
    is_ready: bool = False
    code: int | None = None
    start: Event | None = None
    connected: Event | None = None
    latest_us: int = 0
    """The longest delay between the end of an interval and its arrival."""
    after: Offset | None = None


class ClusterLoad:
    """A load that `generators` make together, in place of an engine's process."""

    def __init__(
        self, generators: Sequence[Generator], shared: Shared, errors: IO[bytes], *, by_first_clock: bool = False
    ) -> None:
        """Engines start with `begin`; their standard error goes to `errors`.

        Wall times of events are this machine's, or with `by_first_clock` the first generator's.
        """
        self._shared = shared
        self._errors = errors
        self._states = [_State(each, measure_offset(each.clock_us)) for each in generators]
        aheads_us = [state.before.ahead_us for state in self._states]
        ours_us = aheads_us[0] if by_first_clock else 0
        self._merger = Merger(len(self._states), [ahead_us - ours_us for ahead_us in aheads_us])
        self._news: queue.SimpleQueue[tuple[int, EngineOutput | LostError]] = queue.SimpleQueue()
        self._done = threading.Event()
        self._threads: list[threading.Thread] = []
        self._started = False
        self._is_stopping = False
        self.returncode: int | None = None

    def begin(self, environment: Mapping[str, str]) -> None:
        """Start all engines and read their output. Raises LostError."""
        count = len(self._states)
        _all_at_once(
            lambda number, state: state.generator.begin(self._shared.part(number + 1, count), environment), self._states
        )
        for number in range(count):
            thread = threading.Thread(target=self._listen, args=(number,), name=f"generator-{number + 1}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def send_signal(self, number: int) -> None:
        """Interrupts all engines, whatever the signal."""
        assert number == signal.SIGINT
        self._is_stopping = True
        for state in self._states:
            state.generator.interrupt()

    def wait(self) -> int:
        """Return the worst exit code; the engines have ended with their events."""
        assert self.returncode is not None
        return self.returncode

    def events(self) -> Iterator[Event]:
        """Yield events of the whole load up to its `end`. Raises EngineError for an invalid one."""
        try:
            while not self._merger.has_ended:
                number, news = self._next_output()
                try:
                    if isinstance(news, LostError):
                        raise news
                    yield from self._read(number, news)
                except LostError as lost:
                    yield self._refusal_event() or self._loss_event(number, lost)
                    return
            self._last_looks()
            yield self._merger.end([self._host(state) for state in self._states])
            self.returncode = max(state.code or 0 for state in self._states)
        finally:
            self.close()

    def _next_output(self) -> tuple[int, EngineOutput | LostError]:
        """Return the next output of a generator. Raises LostError if one is silent."""
        while True:
            now_s = time.monotonic()
            for number, state in enumerate(self._states):
                if now_s - state.answered_s > OVERDUE_S:
                    return number, LostError(f"no data from it for {OVERDUE_S:g} s")
            with suppress(queue.Empty):
                return self._news.get(timeout=HEARTBEAT_S)

    def close(self) -> None:
        """Stop reading: engines that still run lose their lease."""
        self._done.set()
        if self.returncode is None:
            self.returncode = 1

    def _listen(self, number: int) -> None:
        state = self._states[number]
        while not self._done.is_set():
            state.answered_s = time.monotonic()
            news = self._listen_to(state.generator)
            is_last = isinstance(news, LostError) or news.code is not None
            if is_last:
                state.answered_s = inf
            self._news.put((number, news))
            if is_last:
                return

    @staticmethod
    def _listen_to(generator: Generator) -> EngineOutput | LostError:
        try:
            return generator.listen(HEARTBEAT_S)
        except LostError as lost:
            return lost
        except Exception as error:
            # the reader of this generator would wait for ever
            return LostError(f"{type(error).__name__}: {error}")

    def _read(self, number: int, output: EngineOutput) -> Iterator[Event]:
        state = self._states[number]
        for event in read_events(output.lines):
            self._note(state, event)
            if (
                event["event"] == "end"
                and not self._is_stopping
                and INTERRUPTED in (event["outcome"], event.get("reason"))
            ):
                raise LostError("its lease ran out and its engine stopped, because the driver contacted it too rarely")
            if event["event"] == "ready":
                state.is_ready = True
                self._start_if_all_are_ready()
            for whole in self._merger.add(number, event):
                yield self._name_scripts(whole)
            if event["event"] == "end" and event["outcome"] == "failed":
                # the others would wait for a start that never comes
                self.send_signal(signal.SIGINT)
        if output.code is not None:
            state.code = output.code
            self._errors.write(f"generator {number + 1} ({state.generator.name}):\n{output.errors}".encode())
            self._errors.flush()
            if number not in self._merger.ends:
                said = (output.errors.strip().splitlines() or ["it printed no message"])[-1]
                raise LostError(f"its engine ended with exit code {output.code}: {said}")

    def _note(self, state: _State, event: Event) -> None:
        match event["event"]:
            case "start":
                state.start = event
            case "connected":
                state.connected = event
            case "interval":
                assert state.start is not None
                assert state.connected is not None
                ended_us = state.start["epoch_us"] + state.connected["origin_us"] + event["to_us"]
                late_us = time.time_ns() // 1000 - (ended_us - state.before.ahead_us)
                state.latest_us = max(state.latest_us, late_us)

    def _start_if_all_are_ready(self) -> None:
        if self._started or not all(state.is_ready for state in self._states):
            return
        self._started = True
        instant_us = time.time_ns() // 1000 + LEAD_US
        _all_at_once(lambda _number, state: state.generator.start(instant_us + state.before.ahead_us), self._states)

    def _loss_event(self, number: int, why: LostError) -> Event:
        number = number if why.number is None else why.number
        self.send_signal(signal.SIGINT)
        self.returncode = 1
        state = self._states[number]
        message = f"generator {number + 1} of {len(self._states)} ({state.generator.name}) was lost: {why}"
        self._errors.write(f"pgdyno: error: {message}\n".encode())
        self._errors.flush()
        return {
            "event": "end",
            "t_us": 0,
            "outcome": "failed",
            "exit_code": 1,
            "message": message,
            "hint": "check that host and the network to it; the trial is discarded",
            "lost_generator": number + 1,
            "generators": [self._host(each) for each in self._states],
        }

    def _refusal_event(self) -> Event | None:
        """End a load that one engine refused; others may have ended silently, without handlers of signals yet."""
        failed = self._merger.failure([self._host(each) for each in self._states])
        if failed is not None:
            self.returncode = int(failed["exit_code"])
        return failed

    def _name_scripts(self, event: Event) -> Event:
        if event["event"] != "start":
            return event
        names = self._shared.names
        scripts = [{**script, "name": names.get(script["name"], script["name"])} for script in event["scripts"]]
        return {**event, "scripts": scripts}

    def _last_looks(self) -> None:
        for state in self._states:
            try:
                state.after = measure_offset(state.generator.clock_us)
            except LostError:
                # it has reported its end, so its figures are complete
                continue

    def _host(self, state: _State) -> Event:
        return {
            **state.generator.facts,
            "name": state.generator.name,
            "clients": state.start["clients"] if state.start else None,
            "clock_ahead_us": state.before.ahead_us,
            "clock_round_trip_us": state.before.round_trip_us,
            "clock_ahead_after_us": state.after.ahead_us if state.after else None,
            "report_delay_us": state.latest_us,
        }


def _all_at_once(call: Callable[[int, _State], None], states: Sequence[_State]) -> None:
    """Run `call` for each in parallel threads. Raises the first LostError, with the generator's number."""
    with ThreadPoolExecutor(len(states)) as pool:
        calls = [pool.submit(call, *each) for each in enumerate(states)]
    for number, one in enumerate(calls):
        try:
            one.result()
        except LostError as lost:
            lost.number = number
            raise
