"""Base classes and types of the plan's schema."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from pgdyno.units import parse_bytes

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
