"""Keys of a terminal, one by one and without echo."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from types import TracebackType


class Keys:
    """Standard input as keys while the block lasts; nothing where it is no terminal."""

    def __enter__(self) -> Keys:
        """Takes the terminal out of its line mode; Ctrl-C stays a signal."""
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
        """Puts it back as it was."""
        if self._file is not None:
            # what was typed and not read is not for the shell
            termios.tcsetattr(self._file, termios.TCSAFLUSH, self._before)

    def wait(self, seconds: float) -> str:
        """What was typed, waiting up to `seconds` for it; empty when nothing was."""
        files = [] if self._file is None else [self._file]
        ready, _, _ = select.select(files, [], [], seconds)
        if not ready or self._file is None:
            return ""
        typed = os.read(self._file, 64)
        if not typed:
            # its other side is gone
            self._file = None
        return typed.decode(errors="replace")
