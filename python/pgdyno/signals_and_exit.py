"""How the process ends: after a signal, and while libraries still work in threads.

Ctrl-C, SIGTERM and SIGHUP raise exceptions, so that a command can clean up. An exception raised by a signal handler can
be lost: in a finalizer or in a weak reference's callback, which the import system uses, Python prints it and continues;
a library may catch or replace it. A thread therefore checks whether the exception still propagates, and sends the
signal again if it does not.

libpq may compute the proof of a password for minutes. A usual exit runs OpenSSL's clean-up meanwhile, and the thread
then crashes the process with a segmentation fault. DuckDB prints that objects leaked.
"""

import atexit
import contextlib
import os
import queue
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any, NoReturn

from pgdyno.errors import ExitCode

CONNECT_THREAD = "connect"
"""Name of the threads in which libpq connects."""
LOST_AFTER_S = 0.5
"""Interval of the thread's checks. No Python runs between raise and the first handler: the exception shows at once."""
_CODES = {signal.SIGTERM: ExitCode.TERMINATED, signal.SIGHUP: ExitCode.HANGUP}


class Termination:
    """Turns signals into exceptions in the main thread, from `install` to `finish`."""

    def __init__(self) -> None:
        # a handler may interrupt code that holds a lock: this queue has none to wait for
        self._raised: queue.SimpleQueue[tuple[int, BaseException]] = queue.SimpleQueue()
        self._errors: list[BaseException] = []
        self._finished = threading.Event()
        self._main = threading.main_thread().ident

    def install(self) -> None:
        """Set the handlers, except for signals that are ignored, as with nohup."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._handle)
        threading.Thread(target=self._watch, name="termination", daemon=True).start()

    def finish(self) -> None:
        """Stop sending signals again: the command has ended, and no exception propagates any more."""
        self._finished.set()

    @property
    def exit_code(self) -> int | None:
        """Return the exit code for the first signal received, or None without a signal."""
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
                # any of them: an exception raised while another is cleaned up may be dropped there
                if not self._is_propagating():
                    os.kill(os.getpid(), number)
                    break

    def _is_propagating(self) -> bool:
        handled = sys._current_exceptions().get(self._main or 0)
        # before Python 3.12, this is a tuple, as from sys.exc_info()
        error = handled[1] if isinstance(handled, tuple) else handled
        seen: set[int] = set()
        while isinstance(error, BaseException) and id(error) not in seen:
            if any(error is each for each in self._errors):
                return True
            seen.add(id(error))
            error = error.__cause__ or error.__context__
        return False


def leave(code: int) -> NoReturn:
    """End the process with this exit code, after threads that are no daemons, unless one still connects.

    A usual exit would then search all objects for cycles and free them, a quarter of a short command's time.
    """
    threads = [each for each in threading.enumerate() if each is not threading.main_thread()]
    connects = any(each.name == CONNECT_THREAD for each in threads)
    if not connects and not all(each.daemon for each in threads):
        sys.exit(code)
    leave_at_once(code)


def leave_at_once(code: int) -> NoReturn:
    """End the process with this exit code, and all its threads with it; call what is registered for the exit."""
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        # a stream whose reader is gone, or that was closed
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(code)


_HELD_BACK = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def signals_deferred() -> Iterator[None]:
    """Defers SIGINT, SIGTERM and SIGHUP until the end of the block.

    Between a fork and the record of the child's number, an exception from a signal handler would lose the child; during
    a clean-up, it would skip the rest. Only the main thread runs handlers, so other threads have nothing to defer.
    (Blocking signals with a mask does not work: children inherit it, and other threads receive the signal.)
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []
    before: dict[signal.Signals, Any] = {number: signal.getsignal(number) for number in _HELD_BACK}

    def note(number: int, _frame: FrameType | None) -> None:
        arrived.append(number)

    try:
        # None stands for a handler that was not set from Python and could not be restored
        for held_back, handler in before.items():
            if handler is not None:
                signal.signal(held_back, note)
        yield
    finally:
        _restore(list(before.items()))
        for number in dict.fromkeys(arrived):
            signal.raise_signal(number)


def _restore(handlers: list[tuple[signal.Signals, Any]]) -> None:
    if not handlers:
        return
    number, handler = handlers[0]
    try:
        if handler is not None:
            signal.signal(number, handler)
    finally:
        # also if the signal comes between the two statements
        _restore(handlers[1:])
