"""`pgdyno reap`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console

from pgdyno.errors import ExitCode, UsageError
from pgdyno.target import Home
from pgdyno.target.aws.cost import hourly_lines
from pgdyno.target.aws.kinds import Resource
from pgdyno.target.aws.prices import Prices
from pgdyno.target.aws.reaper import Reaper, Wanted, left_lines, run_named
from pgdyno.target.aws.tags import stamp


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line says."""

    run: str | None
    all: bool
    expired: bool
    regions: tuple[str, ...]


def reap(asked: Asked, *, look: bool) -> ExitCode:
    """Removes it, or with `look` lists it; says what is left. Raises PgdynoError."""
    if (asked.run is not None) + asked.all + asked.expired != 1:
        raise UsageError("say what is to be removed", hint="one of --run RUN, --all and --expired")
    root = Home.locate().root
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    reaper = Reaper(root, asked.regions)
    wanted = Wanted(None if asked.run is None else run_named(root, asked.run), asked.expired)
    for journal in reaper.strangers():
        console.print(f"run {journal.run} is of account {journal.account}: nothing of it can be seen", markup=False)
    if look:
        there = reaper.find(wanted)
        for line in _listed(there):
            print(line)
        for line in hourly_lines(there, Prices(root)):
            print(line)
        return ExitCode.OK
    done = reaper.reap(wanted, lambda text: console.print(text, markup=False))
    left = {each.resource.id for each in done.left}
    removed = [each for each in done.found if each.id not in left]
    for each in removed:
        print(f"removed: {each.words}")
    for line in [*left_lines(done.left), *hourly_lines([each.resource for each in done.left], Prices(root))]:
        print(line)
    if not done.found:
        print(f"nothing of pgdyno's is there ({', '.join(reaper.clouds)})")
    return ExitCode.TARGET if done.left else ExitCode.OK


def _listed(there: Sequence[Resource]) -> Iterator[str]:
    """By run, in the order of removal."""
    for run in dict.fromkeys(each.run for each in there):
        of_run = [each for each in there if each.run == run]
        until = next((each.expires for each in of_run if each.expires is not None), None)
        yield f"run {run}{'' if until is None else f', until {stamp(until)}'}"
        yield from (f"  {each.words}" for each in of_run)
