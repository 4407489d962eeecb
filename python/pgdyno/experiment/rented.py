"""Rented servers of a run: their first touch, and what the run records about them."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

from pgdyno.analyse.price import prices_of
from pgdyno.experiment.run_progress import RunProgress
from pgdyno.prepare.first_touch import read_every_page
from pgdyno.prepare.steps import Steps
from pgdyno.records import Manifest, RentRecord
from pgdyno.records.price import HOURS_A_YEAR, PriceList
from pgdyno.targets import Server
from pgdyno.targets.estimate import CURRENCY
from pgdyno.targets.rental import Rental, is_generator


def touch_first(rental: Rental, target: str, server: Server, steps: Steps, progress: RunProgress) -> None:
    """Read every page of a server that was restored, once, unless the plan disables it.

    Raises TargetError, psycopg.Error.
    """
    if target not in rental.unread:
        return
    if rental.reads_first(target):
        steps.do("first touch", "reading every page once", lambda: read_every_page(server))
    else:
        progress.note_once(f"target {target} was restored and not read: first touches of its pages are in its figures")
    rental.unread.discard(target)


def note_rented(rental: Rental, progress: RunProgress) -> None:
    """Note what the rented servers and generators are, where, and what their storage provides. Raises StoreError."""
    ready = rental.journal.ready
    hosts = Counter((each["instance"], each["zone"]) for name, each in ready.items() if is_generator(name))
    for (instance, zone), count in hosts.items():
        progress.note(f"the load comes from {count if count > 1 else 'a'} {instance} in {zone}")
    targets = {name: each for name, each in ready.items() if not is_generator(name)}
    for name, each in targets.items():
        progress.note(f"target {name} is a {each['instance']} in {each['zone']}, version {each['version']}")
    for name in targets:
        for text in rental.limits(name):
            progress.note(f"target {name}: {text}")


def rent_of(rental: Rental, manifest: Manifest, until: datetime) -> list[RentRecord]:
    """Return what the servers of the current attempt cost up to `until`."""
    prices = prices_of(manifest)
    began = manifest.attempts[-1].started_at
    return [_rent(rental, name, rental.since.get(name, began), until, prices) for name in rental.journal.ready]


def _rent(rental: Rental, name: str, since: datetime, until: datetime, prices: PriceList | None) -> RentRecord:
    if is_generator(name):
        return _generators_rent(rental, name, since, until)
    location = rental.journal.ready[name]
    costs = prices.target.get(name) if prices is not None else None
    return RentRecord(
        target=name,
        instance=location["instance"],
        zone=location["zone"],
        since=since,
        until=until,
        hourly=costs.total(prices.years) / (prices.years * HOURS_A_YEAR) if costs is not None and prices else None,
        currency=prices.currency if prices is not None else None,
        price_date=prices.date if prices is not None and costs is not None else None,
        price_source=prices.source or None if prices is not None and costs is not None else None,
    )


def _generators_rent(rental: Rental, name: str, since: datetime, until: datetime) -> RentRecord:
    # price lists contain targets only
    location, paid = rental.journal.ready[name], rental.generator_cost(name)
    return RentRecord(
        target="generator",
        instance=location["instance"],
        zone=location["zone"],
        since=since,
        until=until,
        hourly=None if paid.unknown else paid.hourly,
        currency=CURRENCY,
        price_date=paid.asked,
        price_source=paid.source,
    )
