"""A version of PostgreSQL in a plan."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

VERSION = re.compile(r"\d+(\.\d+){0,2}")


def _version(value: object) -> object:
    # `version = 18` and `version = 18.6` are common; 18.10 would lose its zero
    if isinstance(value, float):
        raise ValueError(f'write the version as text: version = "{value}" (as a number, 18.10 would become 18.1)')
    return str(value) if isinstance(value, int) else value


def _version_form(text: str) -> str:
    if VERSION.fullmatch(text) is None:
        raise ValueError(f'{text!r} is not a PostgreSQL version; write a major ("18") or an exact one ("18.6")')
    return text


Version = Annotated[str, BeforeValidator(_version, json_schema_input_type=str | int), AfterValidator(_version_form)]
