"""Trials that run at the same time: the pairs of a duet, and groups of clients.

The first of them runs in the main thread and is the one that the live view shows; each other one runs in a thread of
its own. All are prepared before, and checked and stored after that, one after the other.
"""

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
from pgdyno.experiment.run_progress import RunProgress
from pgdyno.plan import PlannedTrial
from pgdyno.programs import Engine
from pgdyno.records import DuetRecord, Failure, FailureId, Outcome, Stage
from pgdyno.run.process import Event, Load, Running
from pgdyno.run.run_trial import Interval, TrialResult
from pgdyno.signals_and_exit import signals_deferred

CONNECT_S = 120.0
"""How long an engine whose clients are connected waits for the others."""
AHEAD_US = 500_000
"""From the moment when all are connected to the start, so that a busy machine can pass it on in time."""


class StartBarrier:
    """Starts engines at one instant, once the clients of all are connected, and stops all."""

    def __init__(self, engines: int) -> None:
        self._barrier = threading.Barrier(engines, action=self._choose_start)
        self._start_us = 0
        self._loads: list[Load] = []
        self._lock = threading.Lock()
        self.last_seconds: dict[str, Interval] = {}
        """The last second of each group that is not shown by itself."""

    def join(self, running: Running, delay_s: float = 0.0) -> Running:
        """Return `running` for one of the engines, whose load begins `delay_s` after the common start."""

        @contextmanager
        def joined(
            engine: Engine,
            options: Sequence[str],
            environment: Mapping[str, str],
            errors: IO[bytes],
            folder: Path | None,
        ) -> Iterator[tuple[Load, Iterator[Event]]]:
            with running(engine, [*options, "--await-start"], environment, errors, folder) as (load, events):
                self._loads.append(load)
                try:
                    yield load, self._begin_together(load, events, round(delay_s * 1e6))
                finally:
                    self._take(load)

        return joined

    def stop(self) -> None:
        """Stop all engines, which still report their results."""
        self._barrier.abort()
        for load in list(self._loads):
            self._interrupt(load)

    def _interrupt(self, load: Load) -> None:
        # the second signal would kill it, without its results
        if self._take(load):
            with suppress(ProcessLookupError):
                load.send_signal(signal.SIGINT)

    def _take(self, load: Load) -> bool:
        with self._lock:
            if load not in self._loads:
                return False
            self._loads.remove(load)
            return True

    def _choose_start(self) -> None:
        self._start_us = time.time_ns() // 1000 + AHEAD_US

    def _begin_together(self, load: Load, events: Iterator[Event], delay_us: int) -> Iterator[Event]:
        for event in events:
            if event["event"] != "ready":
                yield event
                continue
            try:
                self._barrier.wait(CONNECT_S)
            except threading.BrokenBarrierError:
                self._interrupt(load)
                continue
            assert isinstance(load, subprocess.Popen)
            assert load.stdin is not None
            with suppress(BrokenPipeError):
                load.stdin.write(f"start {self._start_us + delay_us}\n".encode())
                load.stdin.flush()


@dataclass(frozen=True, slots=True)
class Side:
    """What a trial knows of those that run at the same time."""

    barrier: StartBarrier
    partners: tuple[PlannedTrial, ...]
    processors: tuple[int, ...]
    """Those of a duet's trial; empty for all."""
    is_shown: bool
    """Whether the live view follows this trial."""
    delay_s: float = 0.0
    """When its load begins, after the common start."""

    @property
    def is_guest(self) -> bool:
        """Return whether it loads the server of the first trial, which has the probe and the plan's events."""
        return not self.is_shown and not self.processors

    def show(self, group: str | None, interval: Interval, progress: RunProgress) -> None:
        """Show a second of its trial, or keep it for the one that is shown."""
        if self.is_shown:
            progress.interval(interval, self.barrier.last_seconds)
        elif group is not None:
            self.barrier.last_seconds[group] = interval


T = TypeVar("T")


class _Worker(threading.Thread, Generic[T]):
    """Does `work` and keeps its result or exception."""

    def __init__(self, work: Callable[[], T], on_error: Callable[[], None]) -> None:
        super().__init__(name="trial-at-once")
        self._work = work
        self._on_error = on_error
        self.results: list[T] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.results.append(self._work())
        except BaseException as error:
            # for the main thread
            self.error = error
            self._on_error()


def do_at_once(works: Sequence[Callable[[], T]], stop: Callable[[], None]) -> list[T]:
    """Do all works at the same time, the first in this thread, and return their results.

    If one of them raises, or a signal interrupts this thread, `stop` must make the others end soon; their end is
    waited for, then the exception is raised.
    """
    threads = [_Worker(work, stop) for work in works[1:]]
    for thread in threads:
        thread.start()
    try:
        found = works[0]()
        for thread in threads:
            thread.join()
    except BaseException:
        stop()
        # a second signal must not leave a thread behind
        with signals_deferred():
            for thread in threads:
                thread.join()
        raise
    for thread in threads:
        if thread.error is not None:
            raise thread.error
    return [found, *(thread.results[0] for thread in threads)]


def judged_together(trials: Sequence[PlannedTrial], results: Sequence[TrialResult]) -> list[TrialResult]:
    """Return the results of trials at once; if one of them failed, the others fail, too: they mean nothing alone."""
    failed = [at for at, result in enumerate(results) if result.outcome is Outcome.FAILED]
    if not failed:
        return list(results)
    why = partner_failed(trials[failed[0]], results[failed[0]].failure)
    return [
        result if result.outcome is Outcome.FAILED else replace(result, outcome=Outcome.FAILED, failure=why)
        for result in results
    ]


def partner_failed(partner: PlannedTrial, why: Failure | None) -> Failure:
    """Return the failure of a trial beside which, or before which, `partner` failed for the reason `why`."""
    same = "pair" if partner.point.group is None else "place"
    message = f"trial {partner.number} of the same {same} failed"
    return Failure(
        stage=Stage.RUN,
        id=FailureId.PARTNER_FAILED,
        message=f"{message}: {why.message}" if why is not None else message,
        hint=why.hint if why is not None else None,
    )


def duet_records(sides: Sequence[Side], results: Sequence[TrialResult]) -> list[DuetRecord]:
    """Return the record of each trial of a pair, with the ratio of the two if both have finished."""
    is_finished = all(each.outcome is Outcome.FINISHED for each in results)
    ratio = duet_ratio(results[0].events, results[1].events) if is_finished else None
    records = []
    for side, sign in zip(sides, (-1, 1), strict=True):
        record = DuetRecord(partner=side.partners[0].number, processors=list(side.processors))
        if ratio is not None:
            record = record.model_copy(
                update={"tps_ratio": math.exp(sign * ratio.log), "seconds": round(ratio.seconds, 6)}
            )
        records.append(record)
    return records
