"""`--generators` and `--cluster`: hosts as typed, and work on many runs or files, here or on several hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from pgdyno.console import Console
from pgdyno.errors import EngineError, ExitCode, InvalidValueError, PgdynoError, UsageError
from pgdyno.generators.parallel_map import Lost, Over, in_line
from pgdyno.plan.hosts import Places, generators


def checked_places(option: str, texts: Sequence[str]) -> Places:
    """Parse the hosts in `texts` of `option`. Raises UsageError."""
    try:
        return generators(texts)
    except InvalidValueError as error:
        raise UsageError(f"{option}: {error.message}", hint=error.hint) from error
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from error


Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Unread:
    """A run that could not be processed; the work on the others continues."""

    place: str
    message: str
    hint: str | None = None
    exit_code: ExitCode = ExitCode.STORE
    names_place: bool = False
    """Whether `message` contains the place."""


@contextmanager
def over(cluster: Sequence[str]) -> Iterator[Over]:
    """Return the executor for `--cluster`, by default this process. Raises UsageError and EngineError."""
    if not cluster:
        yield in_line
        return
    # tasks of a cluster need what commands without one do not load
    from pgdyno.generators.ray_tasks import open_task_pool

    console = Console(stderr=True)
    with open_task_pool(checked_places("--cluster", cluster), console.print) as tasks:
        yield tasks


def certain(way: Over) -> Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]:
    """Yield all results. Raises EngineError if one is lost."""

    def results(work: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        items = list(items)
        for item, found in zip(items, way(work, items), strict=True):
            if isinstance(found, Lost):
                raise EngineError(f"cannot read {item}: {found.why}")
            yield found

    return results


def each_run(way: Over, work: Callable[[str], Result], places: Iterable[str]) -> Iterator[tuple[str, Result | Unread]]:
    """Yield each of `places` in order, with the result of `work` or the reason why there is none."""
    places = list(places)
    for place, found in zip(places, way(partial(_attempt, work), places), strict=True):
        if isinstance(found, Lost):
            yield place, Unread(place, f"cannot read {place}: {found.why}", names_place=True)
        else:
            yield place, found


def _attempt(work: Callable[[str], Result], place: str) -> Result | Unread:
    try:
        return work(place)
    except PgdynoError as error:
        return Unread(place, error.message, error.hint, error.exit_code)
    except Exception as error:
        # one unusual run among thousands must not stop the others
        why = f"cannot work on {place}: {type(error).__name__}: {error}"
        hint = "this is a bug in pgdyno; please report it, with this run"
        return Unread(place, why, hint, ExitCode.INTERNAL, names_place=True)


def say_unread(found: Sequence[Unread]) -> None:
    """List the runs that were omitted on standard error."""
    console = Console(stderr=True, soft_wrap=True)
    for each in found:
        console.print("error: ", style="red", end="")
        console.print("" if each.names_place else f"{each.place}: ", end="")
        console.print(each.message)
        if each.hint:
            console.print(f"hint: {each.hint}")
