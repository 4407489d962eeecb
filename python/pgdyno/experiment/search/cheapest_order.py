"""Which target to measure next in the search for the cheapest: bisection within families, pruned by price.

Pure functions from verdicts to the next target: an interrupted search continues from its trials. Within a family, a
larger server keeps what a smaller one keeps. Each family is bisected for its smallest server that keeps the promise,
always at the same places, so that a target that is too dear to matter only saves a trial: the search never needs more
trials than separate bisections of all families.
"""

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum


class Verdict(StrEnum):
    """What the trials of a target show."""

    KEPT = "kept"
    FAILED = "failed"
    UNDECIDED = "undecided"
    """Its trials scatter around the limit."""
    UNMEASURED = "unmeasured"
    """A trial failed, for example because the server cannot be reached: nothing is known of its speed."""


Families = Sequence[Sequence[str]]
"""All targets: each family from the smallest server to the largest, a target without a family alone."""


def next_target(families: Families, prices: Mapping[str, float], verdicts: Mapping[str, Verdict]) -> str | None:
    """Return the target to measure next, the cheapest of those that families ask for; None if the answer is known.

    `prices` are per hour. `verdicts` are those of the targets that were measured.
    """
    best = best_price(prices, verdicts)
    asked = [_bisect_family(family, prices, verdicts, best) for family in families]
    return min((each for each in asked if each is not None), key=lambda each: prices[each], default=None)


def open_targets(families: Families, prices: Mapping[str, float], verdicts: Mapping[str, Verdict]) -> set[str]:
    """Return the targets that may still be measured: not decided, cheaper than any that keeps the promise, and not
    smaller than one that fails.
    """
    best = best_price(prices, verdicts)
    return {
        target
        for family in families
        for place, target in enumerate(family)
        if target not in verdicts and prices[target] < best and not _has(Verdict.FAILED, family[place:], verdicts)
    }


def best_price(prices: Mapping[str, float], verdicts: Mapping[str, Verdict]) -> float:
    """Return the lowest price of a target that keeps the promise; infinite if none is known."""
    return min((prices[each] for each, verdict in verdicts.items() if verdict is Verdict.KEPT), default=math.inf)


def _bisect_family(
    family: Sequence[str], prices: Mapping[str, float], verdicts: Mapping[str, Verdict], best: float
) -> str | None:
    """Return the target of `family` to measure next, given the `best` price so far; None if it has none."""
    members = _worthwhile_targets(family, prices, verdicts)
    # the smallest that keeps the promise is at `low` or above, and below `high` if it could be the answer
    low, high = 0, len(members)
    while low < high:
        # the lower of two middles: a half that is skipped for its price is never the larger one
        middle = (low + high - 1) // 2
        target = members[middle]
        if prices[target] >= best or _has(Verdict.KEPT, members[: middle + 1], verdicts):
            high = middle
        elif _has(Verdict.FAILED, members[middle:], verdicts):
            low = middle + 1
        else:
            return target
    return None


def _worthwhile_targets(
    family: Sequence[str], prices: Mapping[str, float], verdicts: Mapping[str, Verdict]
) -> list[str]:
    """Return the members to bisect: decided by trials, and cheaper than any larger one."""
    found: list[str] = []
    for target in reversed(family):
        decides = verdicts.get(target) not in (Verdict.UNDECIDED, Verdict.UNMEASURED)
        if decides and (not found or prices[target] < prices[found[-1]]):
            found.append(target)
    return found[::-1]


def _has(verdict: Verdict, targets: Sequence[str], verdicts: Mapping[str, Verdict]) -> bool:
    return any(verdicts.get(each) is verdict for each in targets)
