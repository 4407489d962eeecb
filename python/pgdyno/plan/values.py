"""Kinds of values in a plan: durations, commands, numbers, ramps; and the base of its models."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo

from pgdyno.units import parse_bytes, parse_duration_s

HIGHEST_RATE = 1e9
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
LONGEST_NAME = 64
"""Names become parts of folder names, which file systems limit to 255 bytes."""


class Model(BaseModel):
    """Immutable; refuses unknown keys, and text or booleans in place of numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True)


def _named(text: str) -> str:
    if NAME.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not a name; use letters, digits, - and _, starting with a letter or digit")
    if len(text) > LONGEST_NAME:
        raise ValueError(f"a name of {len(text)} letters is too long; use at most {LONGEST_NAME}")
    return text


def setting_text(value: object) -> object:
    """Returns a boolean or number as in postgresql.conf, and other values unchanged."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value) if isinstance(value, (int, float)) else value


def _size(text: str) -> str:
    parse_bytes(text)
    return text


Name = Annotated[str, AfterValidator(_named)]
Setting = Annotated[str, BeforeValidator(setting_text, json_schema_input_type=str | int | float | bool)]
Protocol = Literal["simple", "extended", "prepared"]
Size = Annotated[str, AfterValidator(_size)]
"""Bytes with a unit, as written; `parse_bytes` reads it."""
Positive = Annotated[int, Field(ge=1)]


RESOLVED = "resolved"
"""The context for validating the result of `Plan.as_resolved`, where durations are seconds."""


def _seconds(value: object, info: ValidationInfo) -> object:
    if isinstance(value, str):
        return parse_duration_s(value)
    if info.context == RESOLVED:
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        raise ValueError(f'give the duration a unit, such as "{value}s"')
    raise ValueError('write a duration as text with a unit, such as "10s" or "5m"')


def _command(value: object) -> object:
    if isinstance(value, str) and value.strip():
        return value
    if isinstance(value, list) and value and all(isinstance(each, str) for each in value) and value[0]:
        return value
    raise ValueError('write a line for the shell, "sync; date", or a list of words, ["sync", "-f", "/mnt"]')


def lasting(text: str) -> str:
    """Parses a duration above 0. Raises ValueError."""
    if parse_duration_s(text) <= 0:
        raise ValueError("must be more than 0s")
    return text


def _ramp_of(whole: bool, right: str) -> Callable[[object], object]:
    """Validates a number, or the start and end of a ramp."""
    kinds = (int,) if whole else (int, float)

    def check(value: object) -> object:
        numbers = list(value.values()) if isinstance(value, dict) and value.keys() == {"from", "to"} else [value]
        if all(isinstance(each, kinds) and not isinstance(each, bool) and 0 <= each < HIGHEST_RATE for each in numbers):
            return value
        raise ValueError(f"is invalid; write {right}")

    return check


Seconds = Annotated[float, BeforeValidator(_seconds, json_schema_input_type=str)]
"""A duration."""
Command = Annotated[str | list[str], BeforeValidator(_command)]
"""A shell command, or a list of words."""
Rate = Annotated[float | dict[str, float], BeforeValidator(_ramp_of(False, "500 or { from = 500, to = 5000 }"))]
"""Transactions per second, or the start and end of a ramp."""
Count = Annotated[int | dict[str, int], BeforeValidator(_ramp_of(True, "8 or { from = 1, to = 8 }"))]
"""A number of clients, or the start and end of a ramp."""
