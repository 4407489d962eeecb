"""What a rented server needs before its first trial, and what should be known of it."""

from __future__ import annotations

from datetime import datetime

from pgdyno.analyse.price import prices_of
from pgdyno.experiment.state import RunState
from pgdyno.plan import PlannedTrial
from pgdyno.prepare.first_touch import read_every_page
from pgdyno.prepare.steps import Steps
from pgdyno.records import RentRecord
from pgdyno.records.price import HOURS_A_YEAR, PriceList
from pgdyno.targets import Server
from pgdyno.targets.estimate import CURRENCY
from pgdyno.targets.rental import Rental, is_generator


def touch_first(state: RunState, trial: PlannedTrial, server: Server, steps: Steps) -> None:
    """Reads every page of a server that was restored, once; the plan may say not. Raises TargetError, psycopg.Error."""
    rental = state.ground.rental
    if rental is None or trial.target not in rental.unread:
        return
    if rental.reads_first(trial.target):
        steps.do("first touch", "reading every page once", lambda: read_every_page(server))
    else:
        text = f"target {trial.target} was restored and not read: first touches of its pages are in its figures"
        if text not in state.folder.manifest.notes:
            state.note(text)
    rental.unread.discard(trial.target)


def rent_of(state: RunState, until: datetime) -> list[RentRecord]:
    """What the servers of this attempt are paid for, up to `until`."""
    rental = state.ground.rental
    if rental is None:
        return []
    prices = prices_of(state.folder.manifest)
    return [_rent(state, rental, name, until, prices) for name in rental.journal.ready]


def _rent(state: RunState, rental: Rental, name: str, until: datetime, prices: PriceList | None) -> RentRecord:
    place = rental.journal.ready[name]
    if is_generator(name):
        return _generators_rent(state, name, until)
    costs = prices.target.get(name) if prices is not None else None
    return RentRecord(
        target=name,
        instance=place["instance"],
        zone=place["zone"],
        since=rental.since.get(name, state.folder.manifest.attempts[-1].started_at),
        until=until,
        hourly=costs.total(prices.years) / (prices.years * HOURS_A_YEAR) if costs is not None and prices else None,
        currency=prices.currency if prices is not None else None,
        price_date=prices.date if prices is not None and costs is not None else None,
        price_source=prices.source or None if prices is not None and costs is not None else None,
    )


def _generators_rent(state: RunState, name: str, until: datetime) -> RentRecord:
    """Of one of them. Its price is in none of the targets'."""
    assert state.ground.rental is not None
    rental = state.ground.rental
    place, paid = rental.journal.ready[name], rental.generator_cost(name)
    return RentRecord(
        target="generator",
        instance=place["instance"],
        zone=place["zone"],
        since=rental.since.get(name, state.folder.manifest.attempts[-1].started_at),
        until=until,
        hourly=None if paid.unknown else paid.hourly,
        currency=CURRENCY,
        price_date=paid.asked,
        price_source=paid.source,
    )


def note_limits(state: RunState) -> None:
    """Keeps with the run how much each rented server's storage gives. Raises StoreError."""
    rental = state.ground.rental
    for name in rental.journal.ready if rental is not None else ():
        # the generator is none of the targets
        if rental is not None and not is_generator(name):
            for text in rental.limits(name):
                state.note(f"target {name}: {text}")
