"""One reader a run, however many watch: what it reads is written down once and sent to all."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

from pgdyno.live.running import is_running
from pgdyno.live.watched import Json, Watched

EVERY_S = 1.0
QUEUED = 30
"""Messages that wait for one who is slow; then the line is cut, and the browser comes back for all of it."""


class Hub:
    """The runs that somebody watches."""

    def __init__(self, make: Callable[[Path], Watched] = Watched) -> None:
        """`make` gives what reads a run."""
        self._make = make
        self._channels: dict[Path, _Channel] = {}

    @property
    def watching(self) -> int:
        """How many watch."""
        return sum(len(each.queues) for each in self._channels.values())

    async def messages(self, run: Path) -> AsyncIterator[bytes]:
        """All of the run first, then what changes; ends behind the run's end."""
        channel = self._channels.get(run)
        if channel is None:
            channel = self._channels[run] = _Channel(self._make(run))
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(QUEUED)
        channel.queues.add(queue)
        try:
            if channel.task is None:
                channel.task = asyncio.create_task(channel.read())
            yield encoded("all", await asyncio.to_thread(channel.watched.whole))
            while (message := await queue.get()) is not None:
                yield message
        finally:
            channel.queues.discard(queue)
            if not channel.queues:
                self._channels.pop(run, None)
                if channel.task is not None:
                    channel.task.cancel()


class _Channel:
    """A run and those who watch it."""

    def __init__(self, watched: Watched) -> None:
        self.watched = watched
        self.queues: set[asyncio.Queue[bytes | None]] = set()
        self.task: asyncio.Task[None] | None = None

    async def read(self) -> None:
        """Reads once a second until the run has ended, or nobody watches."""
        while True:
            new = await asyncio.to_thread(self.watched.poll)
            if new is not None:
                self._send(encoded("new", new))
            elif self.watched.has_ended or not await asyncio.to_thread(is_running, self.watched.run):
                self._send(encoded("over", {}))
                self._send(None)
                return
            await asyncio.sleep(EVERY_S)

    def _send(self, message: bytes | None) -> None:
        for queue in self.queues:
            if message is None or queue.full():
                # room for the end
                with suppress(asyncio.QueueEmpty):
                    if queue.full():
                        queue.get_nowait()
                queue.put_nowait(None)
            else:
                queue.put_nowait(message)


def encoded(kind: str, what: Json) -> bytes:
    """A server-sent event."""
    return f"event: {kind}\ndata: {json.dumps(what, separators=(',', ':'))}\n\n".encode()
