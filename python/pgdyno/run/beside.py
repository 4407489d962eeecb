"""A load beside a trial's own, at another server: it is there before that begins, and ends behind it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from pgdyno.errors import EngineError
from pgdyno.programs import Engine
from pgdyno.records import Failure, Outcome, Stage
from pgdyno.run.process import STOP_S, running_engine
from pgdyno.run.stream import Event
from pgdyno.run.trial import TrialResult, aborted, ends_client, judge

CONNECT_S = 120.0
"""How long all its clients may take to connect."""


class BesideLoad:
    """An engine whose load goes on until the end of the block."""

    def __init__(
        self,
        name: str,
        engine: Engine,
        options: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        log: Path,
    ) -> None:
        """Nothing runs before the block. `name` is said in failures; the rest is as for `run_trial`."""
        self.name = name
        self.events: list[Event] = []
        """All that the engine said; whole behind the block."""
        self._start = (engine, options, environment)
        self._folder = folder
        self._log = log
        self._known = threading.Event()
        self._told = False
        self._broken = False
        self._unreadable: EngineError | None = None
        self._code = 0
        self._contexts = ExitStack()
        self._thread = threading.Thread(target=self._listen, name=f"beside-{name}")

    def __enter__(self) -> BesideLoad:
        """Starts the engine."""
        engine, options, environment = self._start
        with ExitStack() as contexts:
            errors = contexts.enter_context(self._log.open("wb"))
            running = running_engine(engine, options, environment, errors, self._folder)
            self._process, self._stream = contexts.enter_context(running)
            self._contexts = contexts.pop_all()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Tells the engine to stop, and waits until it has said what it measured."""
        self._told = True
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        self._thread.join(STOP_S)
        if self._thread.is_alive():
            self._process.kill()
            self._thread.join()
        self._code = self._process.wait()
        self._contexts.close()

    def wait_connected(self) -> bool:
        """Returns when all clients are connected, which is when the load begins; False when they will not be."""
        if not self._known.wait(CONNECT_S):
            self._unreadable = EngineError(f"not all clients were connected after {CONNECT_S:g} s")
            self._broken = True
        return not self._broken

    @property
    def broken(self) -> bool:
        """Whether clients have given up, or the engine has ended without being told."""
        return self._broken

    def failure(self) -> Failure | None:
        """Why it is no load to measure beside; None when it is one. To be asked behind the block."""
        if self._unreadable is not None:
            return self._named(Failure(stage=Stage.RUN, message=self._unreadable.message))
        result: TrialResult = judge(self.events, self._code, self._log)
        if result.outcome is Outcome.FAILED and result.failure is not None:
            return self._named(result.failure)
        if self._broken:
            return self._named(aborted(self.events, self.events[-1]))
        return None

    def _named(self, failure: Failure) -> Failure:
        return failure.model_copy(update={"message": f"the load on {self.name} failed: {failure.message}"})

    def _listen(self) -> None:
        try:
            for event in self._stream:
                self.events.append(event)
                if ends_client(event):
                    self._broken = True
                if event["event"] == "connected":
                    self._known.set()
        except EngineError as error:
            self._unreadable = error
        finally:
            self._broken = self._broken or not self._told
            self._known.set()


def failed_with(result: TrialResult | None, failure: Failure) -> TrialResult:
    """`result`, or nothing measured, as no result for this reason."""
    if result is None:
        return TrialResult(Outcome.FAILED, [], None, None, failure)
    return replace(result, outcome=Outcome.FAILED, failure=failure)
