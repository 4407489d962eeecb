"""`pgdyno reap`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pgdyno.console import Console
from pgdyno.errors import ExitCode, UsageError
from pgdyno.targets import Home
from pgdyno.targets.provider import Provider, Wanted, needed_providers
from pgdyno.targets.rental import Resource, stamp


@dataclass(frozen=True, slots=True)
class Asked:
    """The arguments of `pgdyno reap`."""

    run: str | None
    all: bool
    expired: bool
    regions: tuple[str, ...]


def reap(asked: Asked, *, look: bool) -> ExitCode:
    """Removes leftover resources, or only lists them with `look`; prints what remains. Raises PgdynoError."""
    if (asked.run is not None) + asked.all + asked.expired != 1:
        raise UsageError("no resources selected", hint="use one of --run RUN, --all and --expired")
    codes = [_of(provider, asked, look=look) for provider in needed_providers()]
    return max(codes)


def _of(provider: Provider, asked: Asked, *, look: bool) -> ExitCode:
    root = Home.locate().root
    console = Console(stderr=True, soft_wrap=True)
    reaper = provider.reaper(root, asked.regions)
    wanted = Wanted(None if asked.run is None else provider.run_named(root, asked.run), asked.expired)
    for journal in reaper.strangers():
        console.print(f"run {journal.run} belongs to account {journal.account}, which these credentials cannot access")
    if look:
        there = reaper.find(wanted)
        for line in [*_listed(there), *provider.hourly_lines(there, root)]:
            print(line)
        return ExitCode.OK
    done = reaper.reap(wanted, console.print)
    left = {each.resource.id for each in done.left}
    for each in done.found:
        if each.id not in left:
            print(f"removed: {each.words}")
    costs = provider.hourly_lines([each.resource for each in done.left], root)
    for line in [*(each.line for each in done.left), *costs]:
        print(line)
    if not done.found:
        print(f"no resources of pgdyno found ({', '.join(reaper.places)})")
    return ExitCode.TARGET if done.left else ExitCode.OK


def _listed(there: Sequence[Resource]) -> Iterator[str]:
    for run in dict.fromkeys(each.run for each in there):
        of_run = [each for each in there if each.run == run]
        until = next((each.expires for each in of_run if each.expires is not None), None)
        yield f"run {run}{'' if until is None else f', until {stamp(until)}'}"
        yield from (f"  {each.words}" for each in of_run)
