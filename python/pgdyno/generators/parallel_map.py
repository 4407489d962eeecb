"""Applies a function to many independent items, locally or spread over a cluster: same results, same order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

from pgdyno import __version__
from pgdyno.errors import EngineError

Item = TypeVar("Item")
Result = TypeVar("Result")
RETRIES = 2
"""Retries of a task whose node or process ended."""
HANDED_ON = (
    "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_DEFAULT_REGION",
    "GOOGLE_BASE_URL", "AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ENDPOINT",
)  # fmt: skip
"""Variables with the location of object storage. Credentials are never passed on: each host has its own."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Takes the place of a result if every process that worked on it died without an error."""

    why: str


class Over(Protocol):
    """The signature of `in_line`, and of what `spread` yields."""

    def __call__(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result | Lost]:
        """Yield the results of `work` for each of `items`, in order.

        `work` is a module's function, or a partial of one. An exception of `work` ends the iteration.
        """


def in_line(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result | Lost]:
    """Process the items one after the other in this process."""
    yield from map(work, items)


@dataclass(frozen=True, slots=True)
class Task:
    """A piece of work in the form in which it is sent to another process."""

    version: str
    """The caller's version, because another release may produce other results."""
    environment: Mapping[str, str]

    @classmethod
    def ours(cls) -> Task:
        """Return a task with this process's version and environment."""
        return cls(__version__, {name: os.environ[name] for name in HANDED_ON if name in os.environ})

    def done(self, work: Callable[[Item], Result], item: Item) -> Result:
        """Run the task. Raises what `work` raises, and EngineError if pgdyno has another version there."""
        if self.version != __version__:
            message = f"{os.uname().nodename} has pgdyno {__version__}, and this host has {self.version}"
            raise EngineError(message, hint="install the same release on all")
        os.environ.update(self.environment)
        return work(item)
