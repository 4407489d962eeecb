"""Work on many runs or files: in this process, or in several (`--cluster local:N`). Same results, same order."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

from pgdyno.console import Console
from pgdyno.errors import EngineError, ExitCode, PgdynoError, UsageError

Item = TypeVar("Item")
Result = TypeVar("Result")
MOST_PROCESSES = 64


@dataclass(frozen=True, slots=True)
class Lost:
    """Takes the place of a result if every process that worked on it died without an error."""

    why: str


class Over(Protocol):
    """Applies a function to many independent items."""

    def __call__(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result | Lost]:
        """Yield the results of `work` for each of `items`, in order.

        `work` is a module's function, or a partial of one. An exception of `work` ends the iteration.
        """


def in_line(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result | Lost]:
    """Process the items one after the other in this process."""
    yield from map(work, items)


@contextmanager
def executor_for(cluster: Sequence[str]) -> Iterator[Over]:
    """Yield the executor for `--cluster`, by default this process. Raises UsageError."""
    count = 0
    for text in cluster:
        name, _, number = text.partition(":")
        if name != "local" or not number.isdecimal() or not 1 <= int(number) <= MOST_PROCESSES:
            message = f"--cluster: {text!r} is not local:N, with N from 1 to {MOST_PROCESSES}"
            hint = "processes of this machine read all runs: mount runs of other hosts, or copy them (pgdyno copy)"
            raise UsageError(message, hint=hint)
        count += int(number)
    if not count:
        yield in_line
        return
    # takes a while to load
    from pgdyno.commands.support.process_pool import in_processes

    with ExitStack() as stack:
        yield partial(in_processes, stack, count)


@dataclass(frozen=True, slots=True)
class Unread:
    """A run that could not be processed; the work on the others continues."""

    place: str
    message: str
    hint: str | None = None
    exit_code: ExitCode = ExitCode.STORE
    names_place: bool = False
    """Whether `message` contains the place."""


def require_results(way: Over) -> Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]:
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
