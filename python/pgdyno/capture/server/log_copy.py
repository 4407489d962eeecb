"""Copies what a server logs during a capture: from a byte of each file on, while the files grow and rotate."""

import os
from collections.abc import Iterator
from pathlib import Path

from pgdyno.capture.server.server_files import PIECE_BYTES, FileState, LogFiles
from pgdyno.messages import Message
from pgdyno.store.safe_files import store_errors
from pgdyno.units import format_size


class LogCopy:
    """Copies of log files in a folder that only this user may read, because a log contains values.

    A file that is new is copied from its beginning, and so is one that has become smaller: it was truncated. One that
    was renamed goes on where it was.
    """

    def __init__(self, files: LogFiles, folder: Path, most_bytes: int) -> None:
        """Copy at most `most_bytes`. Raises StoreError."""
        self.copies: list[Path] = []
        """In the order in which the server wrote them."""
        self.copied_bytes = 0
        self.truncated = 0
        """How often a file became smaller or was replaced; what was written since the look before is lost."""
        self._files, self._folder, self._most_bytes = files, folder, most_bytes
        self._inodes: dict[str, str] = {}
        """The inode that each path had when it was last read."""
        self._ends: dict[str, int] = {}
        """How far each inode was copied."""
        self._copy_of: dict[str, Path] = {}
        with store_errors("write", folder, "--into"):
            folder.mkdir(mode=0o700, parents=True)

    def begin(self) -> None:
        """Note the ends of the files: what they contain by now is no part of the capture.

        Raises TargetError, and UsageError if the newest file cannot be read.
        """
        states = self._files.states()
        self._inodes = {path: state.inode for path, state in states.items()}
        self._ends = {state.inode: state.size for state in states.values()}
        for path in list(states)[-1:]:
            self._files.read(path, 0, 1)

    def step(self, *, last: bool) -> bool:
        """Copy what was added; return whether there is room for more. Raises TargetError, StoreError."""
        del last
        states = self._files.states()
        inodes = {path: state.inode for path, state in states.items()}
        gone = set(self._inodes.values()) - set(inodes.values())
        self.truncated += sum(inode in gone and path in inodes for path, inode in self._inodes.items())
        self._inodes = inodes
        for path, state in states.items():
            if state.size < self._ends.get(state.inode, 0):
                self.truncated += 1
                self._ends[state.inode] = 0
                self._copy_of.pop(state.inode, None)
            if not self._copy(path, state):
                return False
        return True

    def reconnect(self) -> None:
        """Open the connection again. Raises TargetError."""
        self._files.reconnect()

    def progress(self) -> str:
        """Return what was copied, for a line of progress."""
        return f"{format_size(self.copied_bytes)} of log"

    def notes(self) -> Iterator[Message]:
        """Yield what may be missing."""
        if self.truncated:
            yield Message(
                "log-truncated",
                "a log file was truncated or replaced while it was read: up to a second of it is missing",
                "log files were truncated or replaced {count} times while they were read:"
                " up to a second each is missing",
                count=self.truncated,
            )

    def _copy(self, path: str, state: FileState) -> bool:
        at = self._ends.get(state.inode, 0)
        while at < state.size:
            room = self._most_bytes - self.copied_bytes
            if room <= 0:
                return False
            piece = self._files.read(path, at, min(PIECE_BYTES, state.size - at, room))
            if not piece:
                break
            self._append(path, state.inode, piece)
            at += len(piece)
            self._ends[state.inode] = at
            self.copied_bytes += len(piece)
        return True

    def _append(self, path: str, inode: str, piece: bytes) -> None:
        copy = self._copy_of.get(inode)
        if copy is None:
            # files of several folders, or one before and after its truncation, may have the same name
            name = Path(path).name
            copy = self._folder / (name if not (self._folder / name).exists() else f"{len(self.copies) + 1}-{name}")
            self._copy_of[inode] = copy
            self.copies.append(copy)
        with store_errors("write", copy, "--into"), open(copy, "ab", opener=_open_private) as file:
            file.write(piece)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)
