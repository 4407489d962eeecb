"""Ctrl-Z: the terminal is given back before the process stops, and taken again when it goes on."""

from __future__ import annotations

import os
import signal
from types import FrameType, TracebackType


class Suspension:
    """Notes that we are to stop, while the block lasts; whoever holds the terminal asks, and stops us."""

    def __init__(self) -> None:
        """Nothing wanted."""
        self.is_wanted = False

    def __enter__(self) -> Suspension:
        """Ctrl-Z is noted from here on. In the main thread only."""
        self._before = signal.signal(signal.SIGTSTP, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """As before."""
        signal.signal(signal.SIGTSTP, self._before)

    def stop(self) -> None:
        """Stops this process; returns when somebody has it go on."""
        self.is_wanted = False
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.is_wanted = True
