"""Runs pure functions as Ray tasks, a limited number at a time, and repeats those that were lost."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from pgdyno.errors import EngineError, PgdynoError
from pgdyno.generators.generator_lifecycle import own_nodes
from pgdyno.generators.parallel_map import RETRIES, Item, Lost, Over, Result, Task
from pgdyno.generators.ray_actors import first_words, join_cluster
from pgdyno.plan.hosts import Places

AHEAD = 2
"""Tasks in flight per processor: no processor waits, and results do not accumulate."""
LOOK_S = 5.0
"""The interval of checks of the nodes while a result is awaited."""


@contextmanager
def open_task_pool(places: Places, notify: Callable[[str], None]) -> Iterator[Over]:
    """Use Ray tasks on the hosts of `places`; nodes that pgdyno started end after the block. Raises EngineError."""
    # read when Ray is imported; Ray's default retries without limit after an out-of-memory kill
    os.environ.setdefault("RAY_task_oom_retries", str(RETRIES))
    if places.ray is not None:
        with join_cluster(places.ray, is_ours=False):
            yield Tasks(lambda: None)
        return
    with own_nodes(places, notify, for_tasks=True) as nodes:
        yield Tasks(nodes.mend)


class Tasks:
    """Runs tasks on a cluster; see `tasks.Over`."""

    def __init__(self, mend: Callable[[], None]) -> None:
        """Use the cluster that this process joined; `mend` restarts pgdyno's own nodes. Raises EngineError."""
        # Ray is installed, because this process has joined a cluster
        import ray

        self._ray: Any = ray
        self._mend = mend
        self._slots = int(self._ray.cluster_resources().get("CPU", 0))
        if not self._slots:
            hint = "nodes that are started for loads have none: remove --num-cpus=0"
            raise EngineError("no node of the cluster has processors for tasks", hint=hint)

    def __call__(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result | Lost]:
        remote = self._ray.remote(num_cpus=1, max_retries=RETRIES, retry_exceptions=False)(_run_task)
        # serialized once for all tasks, because `work` may contain large values such as prices
        task, shared = Task.ours(), self._ray.put(work)
        left, out = iter(items), deque[Any]()
        try:
            while True:
                for item in left:
                    out.append(remote.remote(task, shared, item))
                    if len(out) >= AHEAD * self._slots:
                        break
                if not out:
                    return
                yield self._result(out[0])
                out.popleft()
        finally:
            with suppress(Exception):
                for each in out:
                    # cancelled as by Ctrl-C, so that a task removes what it has downloaded
                    self._ray.cancel(each)
                if out:
                    self._ray.wait(list(out), num_returns=len(out), timeout=LOOK_S)

    def _result(self, of: Any) -> Any:  # noqa: ANN401 - what the work gives
        from ray.exceptions import GetTimeoutError, RayError, RayTaskError

        while True:
            try:
                return self._ray.get(of, timeout=LOOK_S)
            except GetTimeoutError:
                self._look()
            except RayTaskError as error:
                if isinstance(error.cause, PgdynoError):
                    raise error.cause from error
                raise EngineError(f"a task failed: {type(error.cause).__name__}: {error.cause}") from error
            except RayError as error:
                return Lost(f"its worker ended each of {RETRIES + 1} times: {first_words(error)}")

    def _look(self) -> None:
        """Raise EngineError if no node is left that could answer."""
        self._mend()
        if not any(node["Alive"] for node in self._ray.nodes()):
            raise EngineError("the cluster has no nodes left")


def _run_task(task: Task, work: Callable[[Item], Result], item: Item) -> Result:
    return task.done(work, item)
