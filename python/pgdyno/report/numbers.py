"""Figures as text: three significant digits unless more are true. Units are the heading's business."""

from __future__ import annotations

import math

from pgdyno.analyse.estimate import Estimate
from pgdyno.report.texts import Language, current_language, gettext, ngettext
from pgdyno.units import format_significant

NOTHING = "\u2013"
"""A dash where there is no figure."""


def rounded(number: float, digits: int = 3) -> str:
    """`number` with `digits` significant digits, zeros filling the rest: 71,300 for 71,287."""
    if number == 0 or not math.isfinite(number):
        return "0" if number == 0 else NOTHING
    return format_significant(float(f"{number:.{digits}g}"), digits)


def estimate(value: Estimate | None) -> str:
    """A mean: its last digit is one that the interval lets stand."""
    return NOTHING if value is None else rounded(value.mean, digits_of(value))


def half(value: Estimate | None) -> str:
    """Half of the interval, to the same place as the mean, or two digits; a dash without one."""
    return NOTHING if value is None or value.half is None else rounded(value.half, 2)


def low_to_high(value: Estimate) -> str:
    """The interval's ends, to the place of the mean: `70,100 to 72,500`, and `990 to 1,010` about 1,000."""
    low, high = max(value.low, 0.0), value.high
    if value.mean <= 0:
        return between(rounded(low), rounded(high))
    decimals = digits_of(value) - 1 - math.floor(math.log10(value.mean))
    return between(_to_place(low, decimals), _to_place(high, decimals))


def _to_place(number: float, decimals: int) -> str:
    """`number` to so many decimals; to tens, hundreds and so on where they are negative."""
    return f"{round(number, decimals):,.{max(decimals, 0)}f}"


def between(low: str, high: str) -> str:
    """`70,100 to 72,500`."""
    return gettext("{low} to {high}", low=low, high=high)


def apart(low: float, high: float) -> tuple[str, str]:
    """Both to one place, which shows two digits of their difference: 995.4 and 1,004.6; six digits at most."""
    if high <= low:
        return rounded(low), rounded(high)
    decimals = min(1 - math.floor(math.log10(high - low)), 5 - math.floor(math.log10(high)))
    return _to_place(low, decimals), _to_place(high, decimals)


def digits_of(value: Estimate) -> int:
    """Significant digits of a mean that are true: down to a tenth of its half interval, at least three."""
    if not value.half or value.mean <= 0:
        return 3
    return min(max(3, math.floor(math.log10(value.mean)) - math.floor(math.log10(value.half)) + 1), 6)


def ms(latency_ns: float | None) -> str:
    """Nanoseconds as milliseconds, three significant digits, no unit."""
    return NOTHING if latency_ns is None else rounded(latency_ns / 1e6)


def whole(number: int | None) -> str:
    """A count, or a dash where it is not known."""
    return NOTHING if number is None else f"{number:,}"


def short(number: float) -> str:
    """Three digits and a letter, for a line or an axis with little room: `71.3k`, `1.2M`."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= 0.9995 * size:
            return f"{rounded(number / size)}{letter}"
    return rounded(number)


def axis(tick: float) -> str:
    """A round figure of an axis with little room: `80k`, `2.5M`."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(tick) >= size:
            return f"{tick / size:g}{letter}"
    return f"{tick:g}"


def clients(number: int) -> str:
    """`16 clients`, `1 client`."""
    return ngettext("{count:,} client", "{count:,} clients", number)


def trials(number: int) -> str:
    """`3 trials`, `1 trial`."""
    return ngettext("{count:,} trial", "{count:,} trials", number)


def count(number: int, one: str) -> str:
    """`3 runs`, `1 run`: in English, for the terminal and the pages of the live server."""
    return f"{number:,} {one}{'' if number == 1 else 's'}"


def span_of_years(years: float) -> str:
    """`3 years`, `1 year`, `1.5 years`."""
    number = f"{years:g}"
    if years == 1 and current_language() is Language.ENGLISH:
        return f"{number} year"
    return gettext("{years} years", years=number)


def percentile_name(percentile: float) -> str:
    """`p50`, `p99.9`."""
    return f"p{percentile:g}"
