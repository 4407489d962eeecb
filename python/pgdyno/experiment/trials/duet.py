"""The pairs of a duet: two trials at the same time, each on half of the processors.

The first trial of a pair runs in the main thread and is the one that the live view shows; the second one runs in a
thread of its own. Both are prepared before, and checked and stored after that, one after the other.
"""

from __future__ import annotations

import math
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Generic, TypeVar

from pgdyno.analyse.over_time.duet import duet_ratio
from pgdyno.plan import PlannedTrial
from pgdyno.programs import Engine
from pgdyno.records import DuetRecord, Failure, FailureId, Outcome, Stage
from pgdyno.run import TrialResult
from pgdyno.run.process import Event, Load, Running
from pgdyno.signals_and_exit import signals_deferred

CONNECT_S = 120.0
"""How long an engine whose clients are connected waits for the other one."""
AHEAD_US = 500_000
"""From the moment when both are connected to the start, so that a busy machine can pass it on in time."""


class Meeting:
    """Starts two engines at one instant, once the clients of both are connected, and stops both."""

    def __init__(self) -> None:
        self._barrier = threading.Barrier(2, action=self._choose_start)
        self._start_us = 0
        self._loads: list[Load] = []
        self._stopped = threading.Event()

    def of(self, running: Running) -> Running:
        """Return `running` for one of the two engines."""

        @contextmanager
        def meeting(
            engine: Engine,
            options: Sequence[str],
            environment: Mapping[str, str],
            errors: IO[bytes],
            folder: Path | None,
        ) -> Iterator[tuple[Load, Iterator[Event]]]:
            with running(engine, [*options, "--await-start"], environment, errors, folder) as (load, events):
                self._loads.append(load)
                try:
                    yield load, self._started(load, events)
                finally:
                    self._loads.remove(load)

        return meeting

    def stop(self) -> None:
        """Stop both engines, which still report their results."""
        self._stopped.set()
        self._barrier.abort()
        for load in list(self._loads):
            with suppress(ProcessLookupError):
                load.send_signal(signal.SIGINT)

    def is_stopped(self) -> bool:
        """Return whether an engine must stop."""
        return self._stopped.is_set()

    def _choose_start(self) -> None:
        self._start_us = time.time_ns() // 1000 + AHEAD_US

    def _started(self, load: Load, events: Iterator[Event]) -> Iterator[Event]:
        for event in events:
            if event["event"] != "ready":
                yield event
                continue
            try:
                self._barrier.wait(CONNECT_S)
            except threading.BrokenBarrierError:
                load.send_signal(signal.SIGINT)
                continue
            assert isinstance(load, subprocess.Popen)
            assert load.stdin is not None
            with suppress(BrokenPipeError):
                load.stdin.write(f"start {self._start_us}\n".encode())
                load.stdin.flush()


@dataclass(frozen=True, slots=True)
class Side:
    """What one trial of a pair knows of the pair."""

    meeting: Meeting
    partner: PlannedTrial
    processors: tuple[int, ...]
    is_shown: bool
    """Whether the live view follows this trial."""


T = TypeVar("T")


class _Second(threading.Thread, Generic[T]):
    """Does `work` and keeps its result or exception."""

    def __init__(self, work: Callable[[], T], on_error: Callable[[], None]) -> None:
        super().__init__(name="duet")
        self._work = work
        self._on_error = on_error
        self.result: T | None = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.result = self._work()
        except BaseException as error:
            # for the main thread
            self.error = error
            self._on_error()


def both(first: Callable[[], T], second: Callable[[], T], stop: Callable[[], None]) -> tuple[T, T]:
    """Do both at the same time, `first` in this thread.

    If one of them raises, or a signal interrupts this thread, `stop` must make the other one end soon; its end is
    waited for, then the exception is raised.
    """
    thread = _Second(second, stop)
    thread.start()
    try:
        found = first()
        thread.join()
    except BaseException:
        stop()
        # a second signal must not leave the thread behind
        with signals_deferred():
            thread.join()
        raise
    if thread.error is not None:
        raise thread.error
    assert thread.result is not None
    return found, thread.result


def duet_records(sides: Sequence[Side], results: Sequence[TrialResult]) -> list[DuetRecord]:
    """Return the record of each trial of a pair, with the ratio of the two if both have finished."""
    ratio = duet_ratio(results[0].events, results[1].events) if _finished(results) else None
    records = []
    for side, sign in zip(sides, (-1, 1), strict=True):
        record = DuetRecord(partner=side.partner.number, processors=list(side.processors))
        if ratio is not None:
            record = record.model_copy(
                update={"tps_ratio": math.exp(sign * ratio.log), "seconds": round(ratio.seconds, 6)}
            )
        records.append(record)
    return records


def judged_together(trials: Sequence[PlannedTrial], results: Sequence[TrialResult]) -> list[TrialResult]:
    """Return the results of a pair; if one of them failed, the other one has no partner and fails, too."""
    if _finished(results):
        return list(results)
    failed = [each for each in (0, 1) if results[each].outcome is Outcome.FAILED]
    if len(failed) != 1:
        return list(results)
    (at,) = failed
    without = replace(results[1 - at], outcome=Outcome.FAILED, failure=partner_failed(trials[at], results[at].failure))
    return [results[0], without] if at == 0 else [without, results[1]]


def partner_failed(partner: PlannedTrial, why: Failure | None) -> Failure:
    """Return the failure of a trial whose partner failed for the reason `why`."""
    message = f"trial {partner.number} of the same pair failed"
    return Failure(
        stage=Stage.RUN,
        id=FailureId.PARTNER_FAILED,
        message=f"{message}: {why.message}" if why is not None else message,
        hint=why.hint if why is not None else None,
    )


def _finished(results: Sequence[TrialResult]) -> bool:
    return all(each.outcome is Outcome.FINISHED for each in results)
