"""Types of values in a plan: durations, commands, numbers that may be ramps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from pydantic import BeforeValidator, ValidationInfo

from pgdyno.plan.base import HIGHEST_RATE
from pgdyno.units import parse_duration_s

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
