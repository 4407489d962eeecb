"""What Ctrl-C, SIGTERM and SIGHUP do: each raises an exception, which ends the command in good order.

An exception raised by a signal handler can be lost. In a finalizer or a callback of a weak reference, such as the
import system has, Python prints it and goes on; a library may catch it or turn it into an error of its own. So a
thread looks whether the exception is still on its way, and sends the signal again when it is not.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
from types import FrameType
from typing import NoReturn

from pgdyno.errors import ExitCode

LOST_AFTER_S = 0.5
"""How often the thread looks. Between raise and the first handler no Python code runs, so it is there at once."""
_CODES = {signal.SIGTERM: ExitCode.TERMINATED, signal.SIGHUP: ExitCode.HANGUP}


class Termination:
    """Turns signals into exceptions in the main thread, from `install` until `finish`."""

    def __init__(self) -> None:
        """Changes nothing yet; see `install`."""
        # a handler may run at any moment, also while a lock is held: this queue has none that it could wait for
        self._raised: queue.SimpleQueue[tuple[int, BaseException]] = queue.SimpleQueue()
        self._errors: list[BaseException] = []
        self._finished = threading.Event()
        self._main = threading.main_thread().ident

    def install(self) -> None:
        """Sets the handlers; of a signal that is ignored, as by nohup, none."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._handle)
        threading.Thread(target=self._watch, name="termination", daemon=True).start()

    def finish(self) -> None:
        """The command has ended: no exception is on its way any more, and none needs to be."""
        self._finished.set()

    @property
    def exit_code(self) -> int | None:
        """What pgdyno ends with because of the first signal that came; None when none did."""
        if not self._errors:
            return None
        first = self._errors[0]
        return ExitCode.INTERRUPTED if isinstance(first, KeyboardInterrupt) else int(str(first))

    def _handle(self, number: int, _frame: FrameType | None) -> NoReturn:
        error = KeyboardInterrupt() if number == signal.SIGINT else SystemExit(int(_CODES[signal.Signals(number)]))
        self._errors.append(error)
        self._raised.put((number, error))
        raise error

    def _watch(self) -> None:
        while True:
            number, _ = self._raised.get()
            while not self._finished.wait(LOST_AFTER_S):
                # any of them: one that came during the clean-up for another may be dropped there
                if not self._is_on_its_way():
                    os.kill(os.getpid(), number)
                    break

    def _is_on_its_way(self) -> bool:
        handled = sys._current_exceptions().get(self._main or 0)
        # before Python 3.12 a tuple, as sys.exc_info() gives it
        error = handled[1] if isinstance(handled, tuple) else handled
        seen: set[int] = set()
        while isinstance(error, BaseException) and id(error) not in seen:
            if any(error is each for each in self._errors):
                return True
            seen.add(id(error))
            error = error.__cause__ or error.__context__
        return False
