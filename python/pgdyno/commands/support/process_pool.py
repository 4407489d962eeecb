"""Spreads work over processes of this machine, which end with the command, however it ends."""

import multiprocessing
import os
import signal
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from multiprocessing.connection import Connection, wait
from typing import Any

from pgdyno.commands.support.each_run import Item, Lost, Result
from pgdyno.errors import EngineError, PgdynoError

RETRIES = 2
"""Retries of work whose process ended."""
AHEAD = 2
"""Results per process that may wait for an earlier one: no process waits, and results do not accumulate."""
END_S = 10.0
"""The time for interrupted work to remove what it has downloaded."""


def in_processes(
    stack: ExitStack, count: int, work: Callable[[Item], Result], items: Iterable[Item]
) -> Iterator[Result | Lost]:
    """See `each_run.Over`; `stack` ends the processes."""
    items = list(items)
    waiting, results, tries = deque(range(len(items))), dict[int, Any](), Counter[int]()
    idle = [_Worker(stack, work) for _ in range(min(count, len(items)))]
    busy: dict[Connection, tuple[_Worker, int]] = {}
    for at in range(len(items)):
        while at not in results:
            while idle and waiting and waiting[0] < at + AHEAD * count:
                worker, number = idle.pop(), waiting.popleft()
                busy[worker.pipe] = worker, number
                worker.begin(items[number])
            for pipe in wait(list(busy)):
                assert isinstance(pipe, Connection)
                worker, number = busy.pop(pipe)
                try:
                    results[number] = worker.result()
                except (EOFError, ConnectionResetError):
                    code = worker.end()
                    tries[number] += 1
                    if tries[number] > RETRIES:
                        why = f"exit code {code}" if code >= 0 else f"signal {-code}"
                        results[number] = Lost(f"its process ended each of {tries[number]} times: {why}")
                    else:
                        waiting.appendleft(number)
                    worker = _Worker(stack, work)
                idle.append(worker)
        result = results.pop(at)
        if isinstance(result, PgdynoError):
            raise result
        yield result


class _Worker:
    """A process that does one piece of work after the other, until its pipe closes."""

    def __init__(self, stack: ExitStack, work: Callable[[Any], object]) -> None:
        self.pipe, theirs = multiprocessing.Pipe()
        self._is_busy = False
        # not forked: libraries have started threads
        self._process = multiprocessing.get_context("spawn").Process(target=_serve, args=(theirs, work), daemon=True)
        # a process that starts would print the traceback of a KeyboardInterrupt
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
        stack.callback(self.end)

    def begin(self, item: object) -> None:
        self._is_busy = True
        # the result of a process that has ended is the end of its pipe
        with suppress(BrokenPipeError, ConnectionResetError):
            self.pipe.send(item)

    def result(self) -> object:
        """Return the result, or the error that was raised. Raises EOFError or ConnectionResetError if it has ended."""
        result = self.pipe.recv()
        self._is_busy = False
        return result

    def end(self) -> int:
        """End the process, and return its exit code."""
        self.pipe.close()
        pid = self._process.pid
        if self._is_busy and pid is not None and self._process.is_alive():
            os.kill(pid, signal.SIGINT)
        self._process.join(END_S)
        if self._process.exitcode is None:
            self._process.kill()
            self._process.join()
        return self._process.exitcode or 0


def _serve(pipe: Connection, work: Callable[[object], object]) -> None:
    with suppress(EOFError, BrokenPipeError, ConnectionResetError, KeyboardInterrupt):
        # Ctrl-C reaches the command alone, which interrupts each process once
        os.setpgid(0, 0)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        while True:
            item = pipe.recv()
            try:
                result = work(item)
            except PgdynoError as error:
                result = error
            except Exception as error:
                result = EngineError(f"cannot work on {item}: {type(error).__name__}: {error}")
            pipe.send(result)
