"""The processors that pgdyno may use, in two equal halves, and which processes run on which of them."""

import os
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

Halves = tuple[tuple[int, ...], tuple[int, ...]]
_TOPOLOGY = "/sys/devices/system/cpu/cpu{number}/topology"


def own_halves() -> Halves:
    """Return the halves of this process's processors. Raises ValueError with the reason if there are none."""
    return halves(os.sched_getaffinity(0), core_of)


def core_of(number: int) -> tuple[int, int]:
    """Return package and core of a processor: two with the same ones are threads of one core."""
    folder = Path(_TOPOLOGY.format(number=number))
    try:
        return int((folder / "physical_package_id").read_text()), int((folder / "core_id").read_text())
    except (OSError, ValueError):
        return 0, number


def halves(numbers: Collection[int], core: Callable[[int], tuple[int, int]]) -> Halves:
    """Split processors into two equal halves, by whole cores where that is possible. Raises ValueError."""
    cores: dict[tuple[int, int], list[int]] = {}
    for number in sorted(numbers):
        cores.setdefault(core(number), []).append(number)
    whole = [cores[each] for each in sorted(cores)]
    if len(whole) % 2 or len({len(each) for each in whole}) > 1:
        whole = [[number] for each in whole for number in each]
    if len(whole) % 2:
        only = "1 processor" if len(whole) == 1 else f"{len(whole)} processors"
        raise ValueError(f"{only} cannot be split into two equal halves")
    middle = len(whole) // 2
    first, second = (
        tuple(sorted(number for each in part for number in each)) for part in (whole[:middle], whole[middle:])
    )
    return first, second


def pin(pids: Iterable[int], processors: Collection[int]) -> None:
    """Restricts processes, with all their threads, to `processors`; those that have ended are left out.

    Processes that they start later inherit this. Raises PermissionError for another user's process.
    """
    for pid in pids:
        for thread in _threads(pid):
            with suppress(ProcessLookupError):
                os.sched_setaffinity(thread, processors)


def _threads(pid: int) -> list[int]:
    try:
        return [int(each.name) for each in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return []


@contextmanager
def running_on(processors: Collection[int]) -> Iterator[None]:
    """Restricts the calling thread, and what it starts within the block, to `processors`."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, processors)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
