"""The viewers of live pages, and limits of their number: one reader per run, whose updates are encoded once for all."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

from pgdyno.live.control import is_running
from pgdyno.live.run_reader import Json, Watched
from pgdyno.safe_output import visible

EVERY_S = 1.0
QUEUED = 30
"""Messages queued for a slow viewer; beyond that, the connection is closed, and the browser reconnects."""
MOST_STREAMS, MOST_STREAMS_EACH = 64, 16
"""Streams in total, and from one address."""
KEPT_S = 60.0
"""How long a run is read without viewers: the probe's samples of trials that end meanwhile are in no file."""


class Hub:
    def __init__(self, make: Callable[[Path], Watched] = Watched) -> None:
        """`make` returns the reader of a run."""
        self._make = make
        self._channels: dict[Path, _Channel] = {}

    @property
    def watching(self) -> int:
        return sum(len(each.queues) for each in self._channels.values())

    def is_full(self, who: str) -> bool:
        """Return whether another stream would exceed a limit, for the address `who` or in total."""
        watching = [each for channel in self._channels.values() for each in channel.queues.values()]
        return len(watching) >= MOST_STREAMS or watching.count(who) >= MOST_STREAMS_EACH

    async def messages(self, run: Path, who: str = "") -> AsyncIterator[bytes]:
        """Yield the complete state of the run, then changes until its end. `who` is the viewer's address."""
        channel = self._channels.get(run) or self._begin(run)
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(QUEUED)
        channel.queues[queue] = who
        try:
            if channel.task is None or channel.task.done():
                channel.task = asyncio.create_task(channel.read())
            yield encode_event("all", await asyncio.to_thread(channel.watched.complete_state))
            while (message := await queue.get()) is not None:
                yield message
        finally:
            channel.queues.pop(queue, None)
            channel.left_at = time.monotonic()

    def _begin(self, run: Path) -> _Channel:
        idle = [each for each in self._channels.values() if not each.queues]
        # remove channels without viewers: otherwise opening a stream of every run would exhaust memory
        if idle and len(self._channels) >= MOST_STREAMS:
            min(idle, key=lambda each: each.left_at).end()
        channel = self._channels[run] = _Channel(self._make(run), lambda: self._forget(channel))
        return channel

    def _forget(self, channel: _Channel) -> None:
        run = channel.watched.run
        if self._channels.get(run) is channel:
            del self._channels[run]


class _Channel:
    def __init__(self, watched: Watched, forget: Callable[[], None]) -> None:
        self.watched = watched
        self.queues: dict[asyncio.Queue[bytes | None], str] = {}
        self.task: asyncio.Task[None] | None = None
        self.left_at = time.monotonic()
        self._forget = forget

    def end(self) -> None:
        if self.task is not None:
            self.task.cancel()
        self._forget()

    async def read(self) -> None:
        """Read once per second until the run has ended, or nobody has watched for a while."""
        while self.queues or time.monotonic() - self.left_at < KEPT_S:
            new = await asyncio.to_thread(self.watched.poll)
            if new is not None:
                self._send(encode_event("new", new))
            elif self.watched.has_ended or not await asyncio.to_thread(is_running, self.watched.run):
                self._send(encode_event("over", {}))
                self._send(None)
                # a viewer who reloads the page finds what was read
                asyncio.get_running_loop().call_later(KEPT_S, self._forget)
                return
            await asyncio.sleep(EVERY_S)
        self._forget()

    def _send(self, message: bytes | None) -> None:
        for queue in self.queues:
            if message is None or queue.full():
                # leave room for the end
                with suppress(asyncio.QueueEmpty):
                    if queue.full():
                        queue.get_nowait()
                queue.put_nowait(None)
            else:
                queue.put_nowait(message)


def encode_event(kind: str, what: Json) -> bytes:
    return f"event: {kind}\ndata: {visible(json.dumps(what, separators=(',', ':'), ensure_ascii=False))}\n\n".encode()
