"""Ranges of a sweep: `1..8`, `2..160 step 2`, `1..256 doubling`."""

import re
from decimal import Decimal

from pgdyno.errors import InvalidValueError

MOST_VALUES = 10_000
"""The limit of one range, to catch typing errors."""

_NUMBER = r"(\d{1,18}(?:\.\d{1,9})?)"
_UNIT = r"([A-Za-z]{0,3})"
_RANGE = re.compile(
    rf"\s*{_NUMBER}\s*{_UNIT}\s*\.\.\s*{_NUMBER}\s*{_UNIT}\s*(?:step\s+{_NUMBER}\s*{_UNIT}|(doubling))?\s*"
)
_HINT = 'write "1..8", "2..160 step 2" or "1..256 doubling"'


def is_range(text: str) -> bool:
    """Tells whether `text` contains two dots and so is a range."""
    return ".." in text


def expand_range(text: str) -> list[str]:
    """Return the values of the range `text`: its start, and its end if the steps reach it.

    Raises ValueError with the mistake and, after a semicolon, the remedy.
    """
    match = _RANGE.fullmatch(text)
    if match is None:
        raise InvalidValueError(f'"{text}" is not a range', _HINT)
    first, unit, last, last_unit, step_text, step_unit, doubling = match.groups()
    # in "1..8GB", the unit applies to both ends
    unit = unit or last_unit
    if last_unit != unit or (step_unit or unit) != unit:
        raise InvalidValueError(f'"{text}" mixes units', f"write both ends in {unit}")
    low, high = Decimal(first), Decimal(last)
    if low > high:
        raise InvalidValueError(f'"{text}" ends before it begins', f"write {last}{unit}..{first}{unit}")
    numbers = (
        _double_values(text, low, high) if doubling else _stepped_values(text, low, high, Decimal(step_text or "1"))
    )
    return [f"{_plain_number(number)}{unit}" for number in numbers]


def _double_values(text: str, low: Decimal, high: Decimal) -> list[Decimal]:
    if low == 0:
        raise InvalidValueError(f'"{text}" never leaves 0 by doubling', "begin with 1")
    numbers = [low]
    while numbers[-1] * 2 <= high:
        numbers.append(numbers[-1] * 2)
    return numbers


def _stepped_values(text: str, low: Decimal, high: Decimal, step: Decimal) -> list[Decimal]:
    if step == 0:
        raise InvalidValueError(f'"{text}" has a step of 0', _HINT)
    count = int((high - low) / step) + 1
    if count > MOST_VALUES:
        raise InvalidValueError(f'"{text}" has {count:,} values; the maximum is {MOST_VALUES:,}', "use a larger step")
    return [low + step * place for place in range(count)]


def _plain_number(number: Decimal) -> str:
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
