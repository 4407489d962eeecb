"""Keys of a terminal without echo, and Ctrl-Z."""

from __future__ import annotations

import os
import re
import select
import signal
import sys
import termios
import tty
from types import FrameType, TracebackType

_SEQUENCE = re.compile(r"\x1b(?:\[[0-9;<?]*[^0-9;<?]?|O?.?)", re.DOTALL)
"""The bytes of a function key, a cursor key, or a key with Alt: F2 ends with a Q."""


class Keys:
    """Standard input as keys while the block lasts; nothing if it is not a terminal."""

    def __enter__(self) -> Keys:
        """Switch the terminal out of its line mode; Ctrl-C stays a signal."""
        self._file: int | None = None
        self._before: list[int | list[bytes | int]] = []
        if sys.stdin is not None and sys.stdin.isatty():
            self._file = sys.stdin.fileno()
            self._before = termios.tcgetattr(self._file)
            tty.setcbreak(self._file)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            # unread keys are not for the shell
            termios.tcsetattr(self._file, termios.TCSAFLUSH, self._before)

    def wait(self, seconds: float) -> str:
        """Return letters and other characters, waiting up to `seconds` for one; possibly empty."""
        files = [] if self._file is None else [self._file]
        ready, _, _ = select.select(files, [], [], seconds)
        if not ready or self._file is None:
            return ""
        typed = os.read(self._file, 64)
        if not typed:
            # the terminal was closed
            self._file = None
        return _SEQUENCE.sub("", typed.decode(errors="replace"))


class Suspension:
    """Records a request to suspend while the block lasts; the owner of the terminal polls it, and stops the process."""

    def __init__(self) -> None:
        self.is_wanted = False

    def __enter__(self) -> Suspension:
        """Catch Ctrl-Z from here on. Only in the main thread."""
        self._before = signal.signal(signal.SIGTSTP, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.signal(signal.SIGTSTP, self._before)

    def stop(self) -> None:
        """Stop this process; returns when it continues."""
        self.is_wanted = False
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.is_wanted = True
