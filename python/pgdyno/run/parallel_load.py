"""A load in the background of a trial, which starts before the trial's own load and ends after it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from pgdyno.errors import EngineError, StoreError
from pgdyno.programs import Engine
from pgdyno.records import Failure, FailureId, Outcome, Stage
from pgdyno.run.process import STOP_S, Event, Spool, running_engine
from pgdyno.run.run_trial import TrialResult, abort_failure, ends_client, judge

CONNECT_S = 120.0
"""The time limit for connecting all its clients."""


class ParallelLoad:
    """An engine whose load continues until the end of the block."""

    def __init__(
        self,
        name: str,
        clients: int,
        engine: Engine,
        options: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        log: Path,
        spool: Spool,
    ) -> None:
        """`name`, that of its group, appears in errors; other arguments are those of `run_trial`."""
        self.name = name
        self.clients = clients
        self._spool = spool
        self._start = (engine, options, environment)
        self._folder = folder
        self._log = log
        self._known = threading.Event()
        self._is_stopping = False
        self._broken = False
        self._unreadable: EngineError | None = None
        self._not_stored: StoreError | None = None
        self._code = 0
        self._contexts = ExitStack()
        self._thread = threading.Thread(target=self._listen, name=f"load-{name}")

    def __enter__(self) -> ParallelLoad:
        engine, options, environment = self._start
        with ExitStack() as contexts:
            errors = contexts.enter_context(self._log.open("wb"))
            running = running_engine(engine, options, environment, errors, self._folder)
            self._process, self._stream = contexts.enter_context(running)
            self._contexts = contexts.pop_all()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the engine and wait for its results."""
        self._is_stopping = True
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        self._thread.join(STOP_S)
        if self._thread.is_alive():
            self._process.kill()
            self._thread.join()
        self._code = self._process.wait()
        self._contexts.close()

    def wait_connected(self) -> None:
        """Wait until all clients are connected and the load begins, or it is broken."""
        if not self._known.wait(CONNECT_S):
            self._unreadable = EngineError(f"not all clients were connected after {CONNECT_S:g} s")
            self._broken = True

    @property
    def events(self) -> Sequence[Event]:
        """The engine's events, complete after the block."""
        return self._spool.events

    @property
    def broken(self) -> bool:
        """Whether clients have given up, or the engine has ended by itself."""
        return self._broken

    def failure(self) -> Failure | None:
        """Return why the trial is not valid next to this load, or None. Call it after the block.

        Raises StoreError if an event could not be stored.
        """
        if self._not_stored is not None:
            raise self._not_stored
        if self._unreadable is not None:
            message = self._unreadable.message
            return self._name_failure(Failure(stage=Stage.RUN, id=FailureId.EVENTS_UNREADABLE, message=message))
        result: TrialResult = judge(self.events, self._code, self._log)
        if result.outcome is Outcome.FAILED and result.failure is not None:
            return self._name_failure(result.failure)
        if self._broken:
            return self._name_failure(abort_failure(self.events, self.events[-1]))
        return None

    def _name_failure(self, failure: Failure) -> Failure:
        return failure.model_copy(update={"message": f"the load of group {self.name} failed: {failure.message}"})

    def _listen(self) -> None:
        try:
            for event in self._stream:
                self._spool.append(event)
                if ends_client(event):
                    self._broken = True
                if event["event"] == "connected":
                    self._known.set()
        except EngineError as error:
            self._unreadable = error
        except StoreError as error:
            # it ends the run, and must do so from the run's own thread
            self._not_stored = error
        finally:
            self._broken = self._broken or not self._is_stopping
            self._known.set()


def failed_with(result: TrialResult | None, failure: Failure) -> TrialResult:
    """Return `result`, or an empty result, as failed for this reason."""
    if result is None:
        return TrialResult(Outcome.FAILED, [], None, None, failure)
    return replace(result, outcome=Outcome.FAILED, failure=failure)
