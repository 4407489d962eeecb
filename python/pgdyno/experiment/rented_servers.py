"""Servers that are rented for a run, and what earlier attempts at it have cost."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pgdyno.errors import TargetError
from pgdyno.messages import Message
from pgdyno.plan import Plan
from pgdyno.plan.model import rented_targets
from pgdyno.plan.targets import RentedTarget, TargetSpec
from pgdyno.plan.time_budget.time_and_disk import estimated_s, needed_s, trial_count
from pgdyno.records import RentRecord
from pgdyno.records.price import PriceList
from pgdyno.targets.rented.provider import provider_of
from pgdyno.targets.rented.rental import Note, Rental, take_down
from pgdyno.targets.rented.rental_journal import stamp
from pgdyno.units import duration_words

MARGIN_S = 4 * 3600.0
"""Added to twice the planned time before servers expire: creating and removing them is slow."""
LONGEST_S = 24 * 3600.0
"""When servers expire if the length of the trials is unknown."""
LATE_S = 300.0
"""How long after the end of a trial pgdyno waits for the provider, whose figures are minutes late."""
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
def rent_servers(plan: Plan, root: Path, step: Say, note: Note, renting: Renting) -> Iterator[Rental | None]:
    """Rent the servers of `plan` for the block; None if it rents none.

    Servers that `pgdyno target up` created are used, prolonged if necessary, and stay. `root` is pgdyno's home. Raises
    TargetError.
    """
    provider = provider_of(plan)
    if provider is None:
        yield None
        return
    found = provider.standing_rental(plan, root, step)
    if found is not None:
        note(
            Message(
                "rental-used",
                "using the servers that are already up (run {rental}); remove them: pgdyno target down",
                rental=found.journal.run,
            )
        )
        try:
            _prolong_for_run(found, note)
            yield found
            if renting.keep_s is not None and found.journal.expires < _from_now(renting.keep_s):
                _keep(found, note, renting.keep_s)
        finally:
            found.journal.release()
        return
    rental = provider.preflight(plan, root, step, lasts_s(plan))
    keep = False
    try:
        rental.up()
        yield rental
        keep = True
    finally:
        if keep and renting.keep_s is not None:
            _keep(rental, note, renting.keep_s)
            rental.journal.release()
        else:
            take_down(rental, note)


def lasts_s(plan: Plan) -> float:
    """Return after how many seconds the resources of a run of `plan` expire, unless they are removed before."""
    needed = needed_s(plan, plan.points())
    return LONGEST_S if needed is None else 2 * (needed + _rented_s(plan)) + MARGIN_S


def _rented_s(plan: Plan) -> float:
    trials = trial_count(plan, plan.points()) / len(plan.target)
    provider = provider_of(plan)
    restore_s = sum(spec.restore_s for spec in rented_targets(plan).values())
    return trials * restore_s + (0.0 if provider is None else provider.slower_s(plan))


def _prolong_for_run(rental: Rental, note: Note) -> None:
    """Make servers that are already up last for the run. Raises TargetError if they end before its planned end."""
    plan, before = rental.plan, rental.journal.expires
    needed = estimated_s(plan, plan.points())
    if needed is None:
        note(
            Message(
                "rental-may-expire",
                "the servers expire at {until}, and the plan does not say how long the run takes; to rent them for "
                "longer: pgdyno target down, then pgdyno target up --for",
                until=stamp(before),
            )
        )
        return
    planned_s = needed + _rented_s(plan)
    # a run may take twice as long as planned, as for servers of its own; data of its last trial come late
    wanted_s = 2 * planned_s + LATE_S
    until = _from_now(wanted_s)
    if before >= until:
        return
    try:
        rental.prolong(until)
    except TargetError as error:
        end = _from_now(planned_s)
        if before >= end:
            note(_not_prolonged(rental, before, duration_words(wanted_s), error))
            return
        raise TargetError(
            f"the servers of run {rental.journal.run} expire at {stamp(before)}, before the run's planned end at "
            f"{stamp(end)}, and cannot be prolonged: {error.message}",
            hint="rent them again for longer: pgdyno target down, then pgdyno target up --for DURATION",
        ) from error
    note(
        Message(
            "rental-prolonged",
            "the servers expire at {until}, not at {before}: the run may take that long",
            until=stamp(until),
            before=stamp(before),
        )
    )


def _keep(rental: Rental, note: Note, keep_s: float) -> None:
    before, wanted = rental.journal.expires, duration_words(keep_s)
    try:
        rental.prolong(_from_now(keep_s))
        stay = Message(
            "rental-kept",
            "the servers stay for {duration}; remove them: pgdyno reap --run {rental}",
            duration=wanted,
            rental=rental.journal.run,
        )
    except TargetError as error:
        # the run is complete: an error here must not fail it
        stay = _not_prolonged(rental, before, wanted, error)
    note(stay)


def _from_now(seconds: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


def _not_prolonged(rental: Rental, until: datetime, wanted: str, error: TargetError) -> Message:
    return Message(
        "rental-not-prolonged",
        "the servers stay only until {until}, not for {duration}: {error}; remove them: pgdyno reap --run {rental}",
        until=stamp(until),
        duration=wanted,
        error=error.message,
        rental=rental.journal.run,
    )


def with_rented_address(rental: Rental | None, name: str, spec: TargetSpec) -> TargetSpec:
    """Return how to open target `name`: `spec`, or the address of its rented server. Raises TargetError."""
    if isinstance(spec, RentedTarget):
        assert rental is not None
        return rental.connection(name)
    return spec


def spent_on(rented: Sequence[RentRecord]) -> float:
    """Return what the rented servers of earlier attempts have cost in USD, as far as it is known."""
    return math.fsum(each.amount or 0.0 for each in rented)
