"""The events of an engine on disk while it runs, so that a long trial needs no more memory than a short one."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, overload

from pgdyno.store.safe_files import open_new, storing

Event = dict[str, Any]


def event_line(event: Event) -> bytes:
    return json.dumps(event, separators=(",", ":")).encode() + b"\n"


class EventSpool:
    """Keeps events in the order in which they come; `events` reads them back."""

    def __init__(self, path: Path) -> None:
        """Create the file `path`. Raises StoreError."""
        self._path = path
        with storing("write", path):
            self._file = open_new(path)
        self._ends = array("q")
        self._events = _Spooled(path, self._ends)

    @property
    def events(self) -> Sequence[Event]:
        """The events so far, which are read from the file each time; valid until `remove`."""
        return self._events

    def append(self, event: Event) -> None:
        """Write `event`. Raises StoreError."""
        line = event_line(event)
        with storing("write", self._path):
            self._file.write(line)
            self._file.flush()
        self._ends.append((self._ends[-1] if self._ends else 0) + len(line))

    def close(self) -> None:
        """Close the file, which stays readable; nothing can be appended any more."""
        with suppress(OSError):
            # what a full disk refused is still in the buffer; `append` has reported it
            self._file.close()

    def remove(self) -> None:
        """Remove the file. Raises OSError."""
        self.close()
        self._path.unlink(missing_ok=True)


class _Spooled(Sequence[Event]):
    """Events of a file of which only the places of the lines are in memory."""

    def __init__(self, path: Path, ends: Sequence[int]) -> None:
        self._path = path
        self._ends = ends

    def __len__(self) -> int:
        return len(self._ends)

    def __iter__(self) -> Iterator[Event]:
        with storing("read", self._path), self._path.open("rb") as file:
            for line in file:
                yield json.loads(line)

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> list[Event]: ...
    def __getitem__(self, index: int | slice) -> Event | list[Event]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        place = range(len(self))[index]
        begin = self._ends[place - 1] if place else 0
        with storing("read", self._path), self._path.open("rb") as file:
            file.seek(begin)
            event: Event = json.loads(file.read(self._ends[place] - begin))
        return event
