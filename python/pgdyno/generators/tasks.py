"""Work on many things that share nothing, here or spread over a cluster: the same results in the same order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, TypeVar

from pgdyno import __version__
from pgdyno.errors import EngineError
from pgdyno.plan.hosts import Places

Item = TypeVar("Item")
Result = TypeVar("Result")
RETRIES = 2
"""Of a task whose node or process ended."""
HANDED_ON = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_DEFAULT_REGION")
"""Variables that say where object storage is. Credentials are never handed on: each host has its own."""


@dataclass(frozen=True, slots=True)
class Lost:
    """In place of a result: what worked on it ended each time, without a word."""

    why: str


class Over(Protocol):
    """How work on many things is done."""

    def __call__(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result | Lost]:
        """What `work` gives of each of `items`, in their order; `work` is a function of a module, or a partial of one.

        An exception of `work` ends it.
        """


def in_line(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result | Lost]:
    """One after the other, in this process."""
    yield from map(work, items)


@contextmanager
def spread(places: Places, notify: Callable[[str], None]) -> Iterator[Over]:
    """Over Ray's tasks on the hosts of `places`; those of ours end behind the block. Raises EngineError."""
    # read when Ray is loaded; its own number for what was ended for want of memory has no end
    os.environ.setdefault("RAY_task_oom_retries", str(RETRIES))
    # it takes a second to load
    from pgdyno.generators import ray_tasks
    from pgdyno.generators.lifecycle import own_nodes
    from pgdyno.generators.ray_actors import joined

    if places.ray is not None:
        with joined(places.ray, is_ours=False):
            yield ray_tasks.Tasks(lambda: None)
        return
    with own_nodes(places, notify, for_tasks=True) as nodes:
        yield ray_tasks.Tasks(nodes.mend)


@dataclass(frozen=True, slots=True)
class Task:
    """One piece of work as it goes to another process."""

    version: str
    """Of who asks: another release may find something else."""
    environment: Mapping[str, str]

    @classmethod
    def ours(cls) -> Task:
        """As this process would do it."""
        return cls(__version__, {name: os.environ[name] for name in HANDED_ON if name in os.environ})

    def done(self, work: Callable[[Item], Result], item: Item) -> Result:
        """Does it there. Raises what `work` raises, and EngineError where pgdyno is another one."""
        if self.version != __version__:
            message = f"{os.uname().nodename} has pgdyno {__version__}, and this host has {self.version}"
            raise EngineError(message, hint="install the same release on all")
        os.environ.update(self.environment)
        return work(item)
