"""Servers that are rented for a run: there when it begins, gone behind it whatever happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pgdyno.errors import TargetError
from pgdyno.plan import Plan
from pgdyno.plan.costs import needed_s
from pgdyno.plan.rented import RentedTarget
from pgdyno.plan.targets import TargetSpec
from pgdyno.records.price import PriceList
from pgdyno.targets.provider import provider_of
from pgdyno.targets.rental import Rental, stamp, take_down
from pgdyno.units import format_duration

AROUND_S = 4 * 3600.0
"""What is added to twice the planned time: servers come and go slowly, and nobody waits for what has expired."""
LONGEST_S = 24 * 3600.0
"""Where nobody knows how long the trials take."""
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Renting:
    """How a run rents its servers."""

    keep_s: float | None = None
    """They stay for so long behind the run; None: not at all."""
    price: PriceList | None = None
    """What they cost; None: nobody says."""


@contextmanager
def rented(plan: Plan, root: Path, step: Say, note: Say, renting: Renting) -> Iterator[Rental | None]:
    """The rented servers of `plan` within the block; None when it has none.

    Those that `pgdyno target up` left up are taken, and stay. `root` is pgdyno's home. Raises TargetError.
    """
    provider = provider_of(plan)
    if provider is None:
        yield None
        return
    found = provider.standing(plan, root, step)
    if found is not None:
        note(f"taking the servers that are up (run {found.journal.run}); pgdyno target down removes them")
        try:
            yield found
        finally:
            found.journal.release()
        return
    rental = provider.preflight(plan, root, step, lasts_s(plan))
    keep = False
    try:
        rental.up()
        yield rental
        keep = renting.keep_s is not None
    finally:
        _end(rental, note, renting.keep_s if keep else None)


def lasts_s(plan: Plan) -> float:
    """After how many seconds what was made for a run of `plan` has expired, unless it is removed before."""
    needed = needed_s(plan, plan.points())
    return LONGEST_S if needed is None else 2 * needed + AROUND_S


def _end(rental: Rental, note: Say, keep_s: float | None) -> None:
    run = rental.journal.run
    if keep_s is None:
        take_down(rental, note)
        return
    before = rental.journal.expires
    try:
        rental.prolong(datetime.now(UTC) + timedelta(seconds=keep_s))
        stay = f"for {format_duration(keep_s)}"
    except TargetError as error:
        # the run is done, and its figures are what they are
        stay = f"until {stamp(before)}, and not for {format_duration(keep_s)}: {error.message}"
    note(f"the servers stay {stay}; remove them: pgdyno reap --run {run}")
    rental.journal.release()


def connected(rental: Rental | None, name: str, spec: TargetSpec) -> TargetSpec:
    """How target `name` is opened: as the plan has it, or where its rented server is. Raises TargetError."""
    if isinstance(spec, RentedTarget):
        assert rental is not None
        return rental.connection(name)
    return spec
