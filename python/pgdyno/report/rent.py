"""The actual cost of a run's rented servers, by their hours."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pgdyno.records import Manifest, Outcome, RentRecord, TrialRecord
from pgdyno.report import numbers
from pgdyno.report.tables import Table
from pgdyno.report.texts import gettext
from pgdyno.units import format_duration


@dataclass(frozen=True, slots=True)
class Rent:
    """The rental of one target, all attempts together."""

    target: str
    instances: str
    hours: float
    amount: float | None
    """None if the hourly price is unknown."""
    currency: str
    prices: str
    """Origin and date of its price; empty if unknown."""
    transactions: int
    """Succeeded transactions in the measured parts of its finished trials."""

    @property
    def per_million(self) -> float | None:
        """Return the cost per million transactions, including the time around the trials; None without any, or without
        a price.
        """
        return None if self.amount is None or not self.transactions else 1e6 * self.amount / self.transactions


def rents(manifest: Manifest, trials: Sequence[TrialRecord]) -> list[Rent]:
    """Return rentals by target, in the manifest's order; empty if nothing was rented."""
    found: dict[str, list[RentRecord]] = {}
    for each in manifest.rented:
        found.setdefault(each.target, []).append(each)
    return [_rent(target, records, trials) for target, records in found.items()]


def _rent(target: str, records: Sequence[RentRecord], trials: Sequence[TrialRecord]) -> Rent:
    amounts = [each.amount for each in records]
    known = [each for each in amounts if each is not None]
    done = [trial for trial in trials if trial.target == target and trial.outcome is Outcome.FINISHED]
    return Rent(
        target=target,
        instances=", ".join(dict.fromkeys(each.instance for each in records)),
        hours=math.fsum(each.hours for each in records),
        amount=math.fsum(known) if len(known) == len(amounts) else None,
        currency=next((each.currency for each in records if each.currency), ""),
        prices="; ".join(dict.fromkeys(text for each in records if (text := _source(each)))),
        transactions=sum(trial.summary.succeeded or 0 for trial in done if trial.summary is not None),
    )


def _source(record: RentRecord) -> str:
    if record.price_source is None or record.price_date is None:
        return ""
    dated = str(record.price_date) in record.price_source
    return record.price_source if dated else f"{record.price_source} of {record.price_date}"


def rent_lines(manifest: Manifest, trials: Sequence[TrialRecord]) -> Iterator[str]:
    for each in rents(manifest, trials):
        paid = "cost unknown" if each.amount is None else f"{each.amount:,.4f} {each.currency}{_by(each)}"
        million = "" if each.per_million is None else f", {numbers.rounded(each.per_million)} per million transactions"
        # the generator serves none
        measured = f"; {each.transactions:,} transactions measured{million}" if each.transactions else ""
        yield f"{each.target}: {each.instances}, rented for {format_duration(each.hours * 3600)}: {paid}{measured}"


def _by(each: Rent) -> str:
    return f" by {each.prices}" if each.prices else ""


def rent_table(manifest: Manifest, trials: Sequence[TrialRecord]) -> Table | None:
    """Return the same for a report; None if nothing was rented."""
    found = rents(manifest, trials)
    if not found:
        return None
    currency = next((each.currency for each in found if each.currency), "USD")
    headings = (
        gettext("target"),
        gettext("instance"),
        gettext("rented for"),
        gettext("paid, {currency}", currency=currency),
        gettext("transactions measured"),
        gettext("per million transactions, {currency}", currency=currency),
    )
    rows = tuple(
        (
            each.target,
            each.instances,
            format_duration(each.hours * 3600),
            numbers.NOTHING if each.amount is None else f"{each.amount:,.4f}",
            f"{each.transactions:,}",
            numbers.NOTHING if each.per_million is None else numbers.rounded(each.per_million),
        )
        for each in found
    )
    return Table(_caption(found), headings, rows, 2)


def _caption(found: Sequence[Rent]) -> str:
    prices = "; ".join(dict.fromkeys(each.prices for each in found if each.prices))
    if not prices:
        return gettext("Actual cost of this run, from the first request to the end of the last trial")
    return gettext(
        "Actual cost of this run, from the first request to the end of the last trial, by {prices}", prices=prices
    )
