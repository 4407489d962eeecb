"""A thread that lives as long as pgdyno, to start processes from.

To the kernel, a process's parent is the thread that forked it: a parent-death signal comes when that thread ends,
and threads of events, which start servers, too, end with their trial.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

_T = TypeVar("_T")
_Task = tuple[Callable[[], Any], "Future[Any]"]
_lock = threading.Lock()
_tasks: dict[int, queue.SimpleQueue[_Task]] = {}
"""By process: a fork has no such thread."""


def in_lasting_thread(call: Callable[[], _T]) -> _T:
    """What `call` returns, or raises, in that thread."""
    future: Future[_T] = Future()
    _tasks_of_thread().put((call, future))
    return future.result()


def _tasks_of_thread() -> queue.SimpleQueue[_Task]:
    with _lock:
        pid = os.getpid()
        if pid not in _tasks:
            tasks: queue.SimpleQueue[_Task] = queue.SimpleQueue()
            # not an executor's thread: those are ended before what is registered with atexit, which stops servers
            threading.Thread(target=_serve, args=(tasks,), name="lasting", daemon=True).start()
            _tasks[pid] = tasks
        return _tasks[pid]


def _serve(tasks: queue.SimpleQueue[_Task]) -> None:
    while True:
        call, future = tasks.get()
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)
        # what was called may hold a whole server
        del call, future
