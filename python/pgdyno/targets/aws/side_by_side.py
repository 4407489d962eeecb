"""Several servers made at once: each takes minutes, and none needs another."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait

from pgdyno.errors import TargetError


class GivenUpError(TargetError):
    """Another one failed, or nobody wants it any more."""


class Stop:
    """Tells those who work side by side that what they make is wanted no more."""

    def __init__(self) -> None:
        """It is wanted."""
        self._event = threading.Event()

    def set(self) -> None:
        """From now on it is not."""
        self._event.set()

    def check(self) -> None:
        """Raises GivenUpError when it is not."""
        if self._event.is_set():
            raise GivenUpError("given up")


def side_by_side(work: Mapping[str, Callable[[], None]], stop: Stop) -> None:
    """Does all of `work`, and returns when nothing of it goes on. Raises what the first to fail raised.

    When one fails, or this is interrupted, the others are told by `stop`.
    """
    if len(work) == 1:
        # no thread for one: it can be interrupted anywhere
        next(iter(work.values()))()
        return
    with ThreadPoolExecutor(max_workers=max(1, len(work)), thread_name_prefix="aws") as pool:
        futures = [pool.submit(each) for each in work.values()]
        try:
            wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            if not _all_well(futures):
                stop.set()
    raised = [error for each in futures if (error := each.exception()) is not None]
    if raised:
        # who was given up is not the reason
        raise next((each for each in raised if not isinstance(each, GivenUpError)), raised[0])


def _all_well(futures: list[Future[None]]) -> bool:
    return all(each.done() and each.exception() is None for each in futures)
