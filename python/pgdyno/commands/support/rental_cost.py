"""The cost of a plan's rented servers, and the confirmation before pgdyno rents them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import typer

from pgdyno.console import Console
from pgdyno.errors import UsageError
from pgdyno.messages import Message, message_json
from pgdyno.plan import Plan
from pgdyno.records.price import PriceList
from pgdyno.safe_output import print_json
from pgdyno.targets import Home
from pgdyno.targets.rented.estimate import CURRENCY, ONCE, STALE_DAYS, Estimate, Item, Origin, price_list
from pgdyno.targets.rented.provider import provider_of, providers
from pgdyno.units import duration_words


@dataclass(frozen=True, slots=True)
class Consent:
    """The options that limit or confirm costs."""

    yes: bool = False
    max_cost: float | None = None
    """Limit in USD; None for no limit."""


def print_cost(plan: Plan, *, json: bool) -> None:
    """Print the cost of the plan's rented servers. Raises PgdynoError."""
    provider = provider_of(plan)
    if provider is None and not json:
        print("the plan rents no servers, so pgdyno has no prices for it")
        return
    if provider is not None:
        found = provider.price(plan, Home.locate().root)
    else:
        found = Estimate((), 0.0, (), provider=next((each.title for each in providers()), ""))
    if json:
        print_json(as_json(found))
        return
    if provider is not None and not found.items:
        print(f"{provider.title} has no prices: state in [price] what the plan's servers cost")
        return
    console = Console(soft_wrap=True)
    for line in lines(found):
        console.print(line)


def agree(plan: Plan, consent: Consent, hours: float | None = None) -> Estimate:
    """Print the cost of the plan's servers and ask for confirmation. Raises PgdynoError without it.

    `hours` is the rental period; None estimates it from the plan's trials.
    """
    provider = provider_of(plan)
    assert provider is not None
    found = provider.price(plan, Home.locate().root, hours)
    _check_prices(plan, found)
    if not found.items:
        # what costs nothing needs no consent
        return found
    console = Console(stderr=True, soft_wrap=True)
    for line in lines(found):
        console.print(line)
    if consent.max_cost is not None:
        _check_most(found, consent.max_cost)
        if found.is_listed:
            may_differ = f"current prices of {found.provider} may be higher"
            console.print(f"--max-cost is compared with {found.source}: {may_differ}")
    if consent.yes:
        return found
    if not console.is_terminal:
        raise UsageError(
            "renting servers needs confirmation, and standard input is not a terminal", hint="confirm with --yes"
        )
    if not typer.confirm("Rent them?", err=True):
        raise UsageError("nothing was rented")
    return found


def agree_for_run(plan: Plan, consent: Consent, spent: float = 0.0) -> tuple[PriceList | None, float | None]:
    """Call `agree` unless the plan rents nothing or its servers are up.

    Returns prices for the reports, and the most that the run may cost in USD, None without a limit: --max-cost, or what
    `agree` called the most in addition to `spent`, the cost of the run's earlier attempts. Raises PgdynoError.
    """
    provider = provider_of(plan)
    if provider is None:
        return None, None
    root = Home.locate().root
    if provider.is_standing(plan, root):
        standing = provider.price(plan, root)
        _check_prices(plan, standing)
        return price_list(plan, standing), consent.max_cost
    if consent.max_cost is not None and spent >= consent.max_cost:
        message = f"the run has cost {spent:.2f} {CURRENCY} so far, and --max-cost is {consent.max_cost:g}"
        raise UsageError(message, hint="raise --max-cost, which counts all attempts at a run")
    found = agree(plan, consent)
    most = None if found.most is None else spent + found.most
    return price_list(plan, found), most if consent.max_cost is None else consent.max_cost


def _check_prices(plan: Plan, found: Estimate) -> None:
    """Refuse a search for the cheapest target if a price is unknown."""
    if plan.search is None or plan.search.find != "cheapest" or plan.price is not None or not found.unknown:
        return
    named = ", ".join(dict.fromkeys(f"{each.words} of {each.target}" for each in found.unknown))
    hint = "add a table [price.target.NAME] for each target"
    raise UsageError(f'find = "cheapest" compares prices, and some are unknown: {named}', hint=hint)


def _check_most(found: Estimate, most: float) -> None:
    if found.total is None:
        raise UsageError(f"the cost is unknown, so --max-cost {most:g} cannot be enforced", hint="remove --max-cost")
    if found.total > most:
        message = f"the estimated cost of {found.total:.2f} {CURRENCY} exceeds --max-cost {most:g}"
        raise UsageError(message, hint="shorten the plan, choose smaller servers, or raise --max-cost")


def lines(found: Estimate) -> list[str]:
    """Return the estimate as lines: resources, sum, source of the prices, and notes."""
    said = _table(found.items)
    lasts = None if found.hours is None else duration_words(found.hours * 3600)
    least = "at least" if found.unknown else "about"
    if found.hours is None:
        said.append(f"{least} {found.hourly:.4f} {CURRENCY} an hour; the plan does not say for how long")
    else:
        about = found.hours * found.hourly + found.once
        said.append(f"{least} {about:.2f} {CURRENCY} for {lasts}, {found.hourly:.4f} an hour")
        if found.most is not None:
            said.append(f"at most {found.most:.2f} {CURRENCY}: a run stops before it costs more")
    said += map(str, found.assumed)
    if found.asked is not None:
        said.append(f"prices are {found.source if found.is_listed else f'those of {found.source} on {found.asked}'}")
        said.append(f"without {', '.join(found.left_out)}")
    return [*said, *map(str, notes(found))]


def notes(found: Estimate) -> Iterator[Message]:
    """Yield what limits the estimate: unknown and old prices."""
    why_not = found.why_not
    if found.unknown and why_not is not None:
        yield Message("price-service-failed", "the rest is unknown: {why}", why=why_not)
    elif found.unknown:
        yield Message(
            "price-not-listed",
            "the rest is unknown: the price list of {provider} has no matching entry",
            provider=found.provider,
        )
    elif found.is_listed and why_not is not None:
        yield Message(
            "price-service-not-queried", "{provider} was not queried: {why}", provider=found.provider, why=why_not
        )
    age = found.days_old(datetime.now(UTC).date())
    if age > STALE_DAYS:
        yield Message(
            "price-old",
            "warning: the oldest price is {count} day old; current ones may be higher",
            "warning: the oldest price is {count} days old; current ones may be higher",
            count=age,
        )


def _table(items: Sequence[Item]) -> list[str]:
    rows = [("", "", f"{CURRENCY} an hour", "as of"), *(_row(each) for each in items)]
    names, whats, amounts = (max(len(row[at]) for row in rows) for at in (0, 1, 2))
    said, before = [], None
    for target, what, amount, known in rows:
        # only the first line of a target shows its name
        name = "" if target == before else target
        said.append(f"{name:<{names}}  {what:<{whats}}  {amount:>{amounts}}  {known}".rstrip())
        before = target
    return said


def _row(each: Item) -> tuple[str, str, str, str]:
    if each.rate is None:
        return each.target, each.words, "unknown", ""
    amount = f"{each.once:.2f} once" if each.unit in ONCE else f"{each.hourly:.4f}"
    known = f"{each.rate.asked}{', package' if each.rate.origin is Origin.PACKAGE else ''}"
    return each.target, each.words, amount, known


def as_json(found: Estimate) -> dict[str, Any]:
    return {
        "currency": CURRENCY,
        "asked": None if found.asked is None else found.asked.isoformat(),
        "source": found.source,
        "hours": found.hours,
        "hourly": found.hourly,
        "once": found.once,
        "total": found.total,
        "most": found.most,
        "items": [_item_json(each, found.provider) for each in found.items],
        "assumed": [message_json(each) for each in found.assumed],
        "left_out": list(found.left_out),
        "notes": [message_json(each) for each in notes(found)],
    }


def _item_json(each: Item, provider: str) -> dict[str, object]:
    rate = each.rate
    return {
        "target": each.target,
        "what": each.what,
        "count": each.count,
        "unit": each.unit,
        "hourly": each.hourly,
        "once": each.once,
        "asked": None if rate is None else rate.asked.isoformat(),
        "origin": None if rate is None else (provider if rate.origin is Origin.PROVIDER else rate.origin.value).lower(),
    }
