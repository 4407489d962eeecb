"""The space of a search for settings, as the plan writes it: ranges such as `128MB..8GB log`, and lists of values."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from pgdyno.errors import InvalidValueError
from pgdyno.plan.sweeps.expressions import Value
from pgdyno.plan.sweeps.spec import leaves
from pgdyno.plan.values import setting_text
from pgdyno.units import BYTES, MICROSECONDS

_RANGE = re.compile(r"\s*(-?\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*\.\.\s*(-?\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")
_EXAMPLE = 'write a range such as "128MB..8GB log" or "1..4", or a list of values'


@dataclass(frozen=True, slots=True)
class Span:
    """A range of numbers in one unit."""

    low: Decimal
    high: Decimal
    unit: str
    """Empty for a number without a unit."""
    is_log: bool
    """Whether proposals are even over the logarithm."""


Choice = Span | tuple[str, ...]
"""What a setting may be: a range, or one of several texts."""


def unit_family(unit: str) -> Mapping[str, int] | None:
    """Return the units that `unit` converts to, with their sizes; None if PostgreSQL has no such unit."""
    return next((family for family in (BYTES, MICROSECONDS) if unit in family), None)


def read_choice(value: str | Sequence[str]) -> Choice:
    """Parse one value of `search.over`. Raises ValueError with the remedy."""
    if not isinstance(value, str):
        if len(set(value)) < 2:
            raise InvalidValueError("a list needs two different values or more", _EXAMPLE)
        return tuple(dict.fromkeys(value))
    numbers = value.rstrip().removesuffix(" log")
    is_log = numbers != value.rstrip()
    match = _RANGE.fullmatch(numbers)
    if match is None:
        raise InvalidValueError(f"{value!r} is not a range", _EXAMPLE)
    low, high, low_unit, high_unit = Decimal(match[1]), Decimal(match[3]), match[2] or match[4], match[4] or match[2]
    if low_unit != high_unit:
        family = unit_family(low_unit)
        if family is None or high_unit not in family:
            raise InvalidValueError(f"{value!r} mixes units", f"write both ends in {low_unit}")
        finer = min(low_unit, high_unit, key=lambda unit: family[unit])
        low, high = (end * family[unit] / family[finer] for end, unit in ((low, low_unit), (high, high_unit)))
        low_unit = finer
    elif low_unit and unit_family(low_unit) is None:
        raise InvalidValueError(f"{value!r} has the unknown unit {low_unit}", _EXAMPLE)
    if low >= high:
        raise InvalidValueError(f"{value!r} ends before it begins", "write the smaller end first")
    if is_log and low <= 0:
        raise InvalidValueError(f"{value!r} has no logarithm at its lower end", "begin above 0, or remove log")
    return Span(low, high, low_unit, is_log)


def value_in_conditions(choice: Choice, text: str) -> Value:
    """Return what a condition computes with: the number of a range, without its unit; the text of a list."""
    if not isinstance(choice, Span):
        return text
    family = unit_family(choice.unit) or {"": 1}
    unit = next(each for each in sorted(family, key=len, reverse=True) if text.endswith(each))
    return Fraction(text.removesuffix(unit)) * family[unit] / family.get(choice.unit, 1)


def read_when(value: object) -> object:
    """Flattens the table `search.when`, whose keys may contain dots."""
    return dict(leaves(value)) if isinstance(value, Mapping) else value


def read_over(value: object) -> object:
    """Flatten the table `search.over`, whose keys may contain dots, and check its values. Raises ValueError."""
    if not isinstance(value, Mapping):
        return value
    found = {}
    for name, each in leaves(value):
        texts = [setting_text(item) for item in each] if isinstance(each, list) else setting_text(each)
        if not isinstance(texts, (str, list)) or not all(isinstance(item, str) for item in texts):
            raise InvalidValueError(f"{name} is neither a range nor a list", _EXAMPLE)
        try:
            read_choice(texts)
        except InvalidValueError as error:
            raise InvalidValueError(f"{name}: {error.message}", error.hint) from error
        found[name] = texts
    return found
