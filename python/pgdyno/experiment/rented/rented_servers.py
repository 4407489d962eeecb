"""Servers that are rented for a run: created before it, and removed after it whatever happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pgdyno.errors import TargetError
from pgdyno.messages import Message
from pgdyno.plan import Plan
from pgdyno.plan.targets import RentedTarget, TargetSpec, rented_targets
from pgdyno.plan.time_budget.time_and_disk import needed_s, trial_count
from pgdyno.records.price import PriceList
from pgdyno.targets.provider import provider_of
from pgdyno.targets.rental import Note, Rental, stamp, take_down
from pgdyno.units import format_duration

MARGIN_S = 4 * 3600.0
"""Added to twice the planned time before servers expire: creating and removing them is slow."""
LONGEST_S = 24 * 3600.0
"""When servers expire if the length of the trials is unknown."""
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Renting:
    keep_s: float | None = None
    """How long the servers stay after the run; None to remove them at its end."""
    price: PriceList | None = None
    """What the servers cost; None if no prices are given."""
    most: float | None = None
    """The most that all attempts at the run may cost, in USD; None for no limit."""
    spent: float = 0.0
    """What earlier attempts have cost."""


@contextmanager
def rented(plan: Plan, root: Path, step: Say, note: Note, renting: Renting) -> Iterator[Rental | None]:
    """Rent the servers of `plan` for the block; None if it rents none.

    Servers that `pgdyno target up` created are used, and stay. `root` is pgdyno's home. Raises TargetError.
    """
    provider = provider_of(plan)
    if provider is None:
        yield None
        return
    found = provider.standing(plan, root, step)
    if found is not None:
        note(
            Message(
                "rental-used",
                "using the servers that are already up (run {rental}); remove them: pgdyno target down",
                rental=found.journal.run,
            )
        )
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
    """Return after how many seconds the resources of a run of `plan` expire, unless they are removed before."""
    points = plan.points()
    needed = needed_s(plan, points)
    if needed is None:
        return LONGEST_S
    trials = trial_count(plan, points) / len(plan.target)
    restores_s = trials * sum(spec.restore_s for spec in rented_targets(plan).values())
    return 2 * (needed + restores_s) + MARGIN_S


def _end(rental: Rental, note: Note, keep_s: float | None) -> None:
    run = rental.journal.run
    if keep_s is None:
        take_down(rental, note)
        return
    before, wanted = rental.journal.expires, format_duration(keep_s)
    try:
        rental.prolong(datetime.now(UTC) + timedelta(seconds=keep_s))
        stay = Message(
            "rental-kept",
            "the servers stay for {duration}; remove them: pgdyno reap --run {rental}",
            duration=wanted,
            rental=run,
        )
    except TargetError as error:
        # the run is complete: an error here must not fail it
        stay = Message(
            "rental-not-prolonged",
            "the servers stay only until {until}, not for {duration}: {error}; remove them: pgdyno reap --run {rental}",
            until=stamp(before),
            duration=wanted,
            error=error.message,
            rental=run,
        )
    note(stay)
    rental.journal.release()


def connected(rental: Rental | None, name: str, spec: TargetSpec) -> TargetSpec:
    """Return how to open target `name`: `spec`, or the address of its rented server. Raises TargetError."""
    if isinstance(spec, RentedTarget):
        assert rental is not None
        return rental.connection(name)
    return spec
