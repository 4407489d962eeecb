"""Ctrl-Z: the terminal is restored before the process stops, and taken again when it continues."""

from __future__ import annotations

import os
import signal
from types import FrameType, TracebackType


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
        """Restore the signal handler."""
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
