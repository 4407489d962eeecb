"""`pgdyno plan cost`, and what is asked before servers are rented."""

from __future__ import annotations

import json as json_module
from collections.abc import Sequence
from dataclasses import dataclass

import typer
from rich.console import Console

from pgdyno.errors import UsageError
from pgdyno.plan import Plan, load_plan
from pgdyno.records.price import PriceList
from pgdyno.target import Home
from pgdyno.target.aws.cloud import Cloud
from pgdyno.target.aws.cost import Estimate, estimate, price_list
from pgdyno.target.aws.life import is_standing, rented_targets
from pgdyno.target.aws.prices import CURRENCY, Prices
from pgdyno.units import format_duration


@dataclass(frozen=True, slots=True)
class Consent:
    """What the command line says of money."""

    yes: bool = False
    max_cost: float | None = None
    """USD."""


def cost(source: str, overrides: Sequence[str], *, json: bool, on: str | None = None) -> None:
    """Prints what a plan's rented servers cost. Raises PgdynoError."""
    plan = load_plan(source, overrides, on).plan
    if not rented_targets(plan):
        print("[]" if json else "the plan rents no servers: pgdyno knows no price of it")
        return
    prices = Prices(Home.locate().root)
    found = estimate(plan, prices, configured_region(plan))
    if json:
        print(json_module.dumps(as_json(found)))
        return
    console = Console(highlight=False, soft_wrap=True)
    for line in lines(found, prices):
        console.print(line, markup=False)


def agree(plan: Plan, consent: Consent, hours: float | None = None) -> Estimate:
    """Says what the plan's servers cost, and asks whether they may be paid for. Raises PgdynoError when not.

    `hours` are those for which they are rented; None: as long as the plan's trials take.
    """
    prices = Prices(Home.locate().root)
    found = estimate(plan, prices, configured_region(plan), hours)
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    for line in lines(found, prices):
        console.print(line, markup=False)
    _check_most(found, consent.max_cost)
    if consent.yes:
        return found
    if not console.is_terminal:
        raise UsageError("servers would be rented, and nobody can be asked", hint="say --yes")
    if not typer.confirm("Rent them?", err=True):
        raise UsageError("nothing was rented")
    return found


def agree_for_run(plan: Plan, consent: Consent) -> PriceList | None:
    """Likewise, unless there are none, or they are up; what they cost, for the run's reports. Raises PgdynoError."""
    if not rented_targets(plan) or is_standing(plan, Home.locate().root):
        return None
    return price_list(plan, agree(plan, consent))


def _check_most(found: Estimate, most: float | None) -> None:
    if most is None:
        return
    if found.total is None:
        raise UsageError(f"nobody knows whether it costs more than {most:g} {CURRENCY}", hint="leave out --max-cost")
    if found.total > most:
        message = f"it costs about {found.total:.2f} {CURRENCY}, and --max-cost says {most:g}"
        raise UsageError(message, hint="shorten the plan, take smaller servers, or allow more")


def configured_region(plan: Plan) -> str:
    """That of targets which name none. Raises AwsError when nothing says it."""
    if all(spec.region is not None for spec in rented_targets(plan).values()):
        return ""
    return Cloud().region


def lines(found: Estimate, prices: Prices) -> list[str]:
    """The estimate in words."""
    said = []
    for each in found.items:
        counted = "" if each.unit == "hour" else f"{each.count:,.0f} {each.unit} of "
        price = "unknown" if each.hourly is None else f"{each.hourly:.4f} {CURRENCY} an hour"
        said.append(f"{each.target}: {counted}{each.what}: {price}")
    lasts = None if found.hours is None else format_duration(found.hours * 3600)
    if found.unknown:
        why = prices.why_not or "Amazon's price list has no such line"
        said.append(f"at least {found.hourly:.4f} {CURRENCY} an hour; the rest is unknown: {why}")
        said += [f"rented for about {lasts}"] if lasts is not None else []
    elif found.hours is None or found.total is None:
        said.append(f"{found.hourly:.4f} {CURRENCY} an hour; the plan does not say for how long")
    else:
        said.append(f"about {found.total:.2f} {CURRENCY} for {lasts}, {found.hourly:.4f} an hour")
    if found.asked is not None:
        said.append(f"prices are those of Amazon's price list on {found.asked}; without {', '.join(found.left_out)}")
    return said


def as_json(found: Estimate) -> dict[str, object]:
    """The estimate for programs."""
    items = [
        {"target": each.target, "what": each.what, "count": each.count, "unit": each.unit, "hourly": each.hourly}
        for each in found.items
    ]
    asked = None if found.asked is None else found.asked.isoformat()
    return {
        "currency": CURRENCY,
        "asked": asked,
        "hours": found.hours,
        "hourly": found.hourly,
        "total": found.total,
        "items": items,
        "left_out": list(found.left_out),
    }
