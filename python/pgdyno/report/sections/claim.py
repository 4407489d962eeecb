"""The first sentence of a report: the verdict of its chief comparison, or its peak, and the price."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pgdyno.analyse.compare import Comparison, Verdict
from pgdyno.analyse.scaling import ScalingCurve
from pgdyno.report import numbers, words
from pgdyno.report.comparison import sentence
from pgdyno.report.digest import Digest
from pgdyno.report.extras import Extras
from pgdyno.report.sections.compared import settling
from pgdyno.report.sections.four import curve_price
from pgdyno.report.texts import say, say_count


@dataclass(frozen=True, slots=True)
class Claim:
    """What is said first."""

    text: str
    settle: str = ""
    """What would settle it, and how many comparisons there are beside it; empty where there is nothing to say."""
    chief: Comparison | None = None
    """The comparison that it is about; None: the run's peak."""


def claim(of: Digest, extras: Extras) -> Claim:
    """The comparison of the largest settled effect; the peak where there is none."""
    chief = chief_of(extras.comparisons)
    if chief is None:
        best = of.best
        price = _million(best, extras) if best is not None else None
        # arms without an interval: what they want is said under the peak
        first = extras.comparisons[0] if extras.comparisons else None
        wanting = ""
        if first is not None:
            wanting = say(". ").join((say("No comparison yet: {why}", why=sentence(first)), settling(first)))
        return Claim(_priced(words.headline(of), extras, price), wanting)
    others = len(extras.comparisons) - 1
    more = [say_count(others, "{count} other comparison below", "{count} other comparisons below")] if others else []
    settle = say(". ").join([*([told] if (told := settling(chief)) else []), *more])
    text = sentence(chief)
    if chief.chief is not None and chief.chief.verdict is not Verdict.INCONCLUSIVE:
        text = _priced_arms(text, of, chief, extras)
    return Claim(text, settle, chief)


def chief_of(comparisons: Sequence[Comparison]) -> Comparison | None:
    """The comparison of the largest effect, one that is settled if there is any; None without an interval."""
    told = [(each, chief, chief.interval) for each in comparisons if (chief := each.chief) and chief.interval]
    settled = [each for each in told if each[1].verdict is not Verdict.INCONCLUSIVE]
    return max(settled or told, key=lambda each: abs(each[2].mean))[0] if told else None


def _priced(text: str, extras: Extras, price: str | None) -> str:
    if price is None or extras.prices is None:
        return text
    return say(
        "{claim}; a million transactions cost {price} {currency}",
        claim=text,
        price=price,
        currency=extras.prices.currency,
    )


def _priced_arms(text: str, of: Digest, chief: Comparison, extras: Extras) -> str:
    """Both arms' prices at their highest peaks; nothing where one of them has none."""
    base, other = (_arm_price(of, arm, extras) for arm in (chief.base, chief.other))
    if base is None or other is None or extras.prices is None:
        return text
    return say(
        "{claim}; a million transactions cost {price} {currency} ({other}), {base_price} {currency} ({base})",
        claim=text,
        price=other,
        base_price=base,
        currency=extras.prices.currency,
        other=chief.other,
        base=chief.base,
    )


def _arm_price(of: Digest, arm: str, extras: Extras) -> str | None:
    curves = [curve for curve in of.curves if extras.arms.get(curve.series) == arm]
    best = max(curves, key=lambda curve: curve.peak.tps.mean, default=None)
    return _million(best, extras) if best is not None else None


def _million(curve: ScalingCurve, extras: Extras) -> str | None:
    price = curve_price(curve, extras.prices)
    return numbers.rounded(price.per_million) if price is not None else None
