"""Figures as text: three significant digits unless more are accurate. Headings have the units."""

import math
from dataclasses import asdict
from typing import Any

from pgdyno.analyse.intervals import CONFIDENCE, Estimate
from pgdyno.report.translation import Language, current_language, gettext, ngettext
from pgdyno.units import format_significant

NOTHING = "\u2013"
"""A dash for a missing figure."""


def round_text(number: float, digits: int = 3) -> str:
    """Return `number` with `digits` significant digits, filled with zeros: 71,300 for 71,287."""
    if number == 0 or not math.isfinite(number):
        return "0" if number == 0 else NOTHING
    return format_significant(float(f"{number:.{digits}g}"), digits)


def estimate(value: Estimate | None) -> str:
    """Return a mean to the precision that its interval allows."""
    return NOTHING if value is None else round_text(value.mean, digits_of(value))


def half(value: Estimate | None) -> str:
    """Return half of the interval with the precision of the mean, or two digits; a dash without one."""
    if value is None or value.half is None:
        return NOTHING
    return round_text(0.0 if _is_noise(value) else value.half, 2)


def low_to_high(value: Estimate) -> str:
    """Return the interval's ends as precise as the mean: `70,100 to 72,500`, and `990 to 1,010` around 1,000."""
    low, high = max(value.low, 0.0), value.high
    if value.mean <= 0:
        return range_text(round_text(low), round_text(high))
    decimals = digits_of(value) - 1 - math.floor(math.log10(value.mean))
    return range_text(_to_place(low, decimals), _to_place(high, decimals))


def _to_place(number: float, decimals: int) -> str:
    """Round `number` to so many decimals; to tens, hundreds and so on if negative."""
    return f"{round(number, decimals):,.{max(decimals, 0)}f}"


def range_text(low: str, high: str) -> str:
    return gettext("{low} to {high}", low=low, high=high)


def distinct_texts(low: float, high: float) -> tuple[str, str]:
    """Return both with the precision that shows two digits of their difference, at most six: 995.4 and 1,004.6."""
    if high <= low:
        return round_text(low), round_text(high)
    decimals = min(1 - math.floor(math.log10(high - low)), 5 - math.floor(math.log10(high)))
    return _to_place(low, decimals), _to_place(high, decimals)


def digits_of(value: Estimate) -> int:
    """Return the significant digits of a mean: down to a tenth of its half interval, at least three."""
    if not value.half or value.mean <= 0 or _is_noise(value):
        return 3
    return min(max(3, math.floor(math.log10(value.mean)) - math.floor(math.log10(value.half)) + 1), 6)


def _is_noise(value: Estimate) -> bool:
    """Return whether the interval is only what floats add to equal trials."""
    return value.half is not None and value.half < 1e-12 * abs(value.mean)


def ms(latency_ns: float | None) -> str:
    """Return nanoseconds as milliseconds, three significant digits, no unit."""
    return NOTHING if latency_ns is None else round_text(latency_ns / 1e6)


def round_or_dash(number: float | None, per: float = 1.0, digits: int = 3) -> str:
    """Return a number in units of `per`, rounded; a dash if it is unknown."""
    return NOTHING if number is None else round_text(number / per, digits)


def format_count(number: int | None) -> str:
    """Return a count, or a dash if unknown."""
    return NOTHING if number is None else f"{number:,}"


def short(number: float) -> str:
    """Return three digits and a letter, for a line or an axis with little room: `71.3k`, `1.2M`."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= 0.9995 * size:
            return f"{round_text(number / size)}{letter}"
    return round_text(number)


def axis(tick: float) -> str:
    """Return a round figure for an axis with little room: `80k`, `2.5M`."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(tick) >= size:
            return f"{tick / size:g}{letter}"
    return f"{tick:g}"


def clients(number: int | None) -> str:
    """Return the number of clients in words: an import may not know it."""
    if not number:
        return gettext("clients unknown")
    return ngettext("{count:,} client", "{count:,} clients", number)


def trials(number: int) -> str:
    return ngettext("{count:,} trial", "{count:,} trials", number)


def span_of_years(years: float) -> str:
    number = f"{years:g}"
    if years == 1 and current_language() is Language.ENGLISH:
        return f"{number} year"
    return gettext("{years} years", years=number)


def percentile_name(percentile: float) -> str:
    return f"p{percentile:g}"


def estimate_json(of: Estimate | None) -> dict[str, Any] | None:
    """Return a mean over trials; `half` of its interval is null for one trial."""
    return None if of is None else {**asdict(of), "confidence": CONFIDENCE}
