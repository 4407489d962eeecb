"""What a rented server needs before its first trial, and what should be known of it."""

from __future__ import annotations

from datetime import datetime

from pgdyno.analyse.price import prices_of
from pgdyno.experiment.state import RunState
from pgdyno.plan import PlannedTrial
from pgdyno.plan.aws_targets import AuroraTarget, RdsTarget
from pgdyno.plan.ec2_target import Ec2Target
from pgdyno.prepare.first_touch import read_every_page
from pgdyno.prepare.steps import Steps
from pgdyno.records import RentRecord
from pgdyno.records.price import HOURS_A_YEAR, PriceList
from pgdyno.target import Server
from pgdyno.target.aws.cost import Estimate
from pgdyno.target.aws.cost_ec2 import host_items
from pgdyno.target.aws.faults import AwsError
from pgdyno.target.aws.journal import is_generator
from pgdyno.target.aws.life import Rental, rented_targets
from pgdyno.target.aws.limits import Limit, instance_limit, storage_words, volume_words
from pgdyno.target.aws.prices import CURRENCY, Prices


def touch_first(state: RunState, trial: PlannedTrial, server: Server, steps: Steps) -> None:
    """Reads every page of a server that was restored, once; the plan may say not. Raises TargetError, psycopg.Error."""
    rental, spec = state.ground.rental, state.plan.target[trial.target]
    if rental is None or trial.target not in rental.unread or not isinstance(spec, RdsTarget | AuroraTarget):
        return
    if spec.first_touch == "read":
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
    rental, spec = state.ground.rental, state.plan.generator
    place = rental.journal.ready[name]
    assert spec is not None
    # that of the servers; a zone's name is not always its region's with a letter behind it
    region = rental.observed(next(iter(rented_targets(state.plan))))[0].region
    items = host_items("generator", spec, [spec.root], Prices(rental.root), region, place["instance"])
    paid = Estimate(tuple(items), None, ())
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
    for name, place in (rental.journal.ready if rental is not None else {}).items():
        # the generator is none of the targets
        spec = state.plan.target.get(name)
        if rental is None or not isinstance(spec, RdsTarget | Ec2Target):
            continue
        cloud, _ = rental.observed(name)
        try:
            texts = _limits(spec, place["instance"], instance_limit(cloud, place["instance"]))
        except AwsError as error:
            texts = [f"the limits of its storage are not known: {error.message}"]
        for text in texts:
            state.note(f"target {name}: {text}")


def _limits(spec: RdsTarget | Ec2Target, instance: str, limit: Limit | None) -> list[str]:
    if isinstance(spec, RdsTarget):
        return [storage_words(spec, instance, limit)]
    there = {"data": spec.data or spec.root, "WAL": spec.wal}
    return [volume_words(what, each, instance, limit) for what, each in there.items() if each is not None]
