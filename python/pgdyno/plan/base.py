"""What every part of the plan's schema is made of."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from pgdyno.units import parse_bytes

HIGHEST_RATE = 1e9
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
LONGEST_NAME = 64
"""Names become parts of folders' names, which file systems limit to 255 bytes."""


class Model(BaseModel):
    """Base: immutable; an unknown key is a mistake, and so is text or true where a number belongs."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True)


def _named(text: str) -> str:
    if NAME.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not a name; use letters, digits, - and _, starting with a letter or digit")
    if len(text) > LONGEST_NAME:
        raise ValueError(f"a name of {len(text)} letters is too long; {LONGEST_NAME} are the most")
    return text


def setting_text(value: object) -> object:
    """A truth value or number as postgresql.conf has it; anything else as it is."""
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
"""Bytes with a unit, as they were written; `parse_bytes` reads it."""
Positive = Annotated[int, Field(ge=1)]
