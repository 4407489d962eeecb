"""What a plan holds that is not for readers of its results: `options` of a connection string.

They are a server's settings, among which a proxy's token or an application's key may be. A run's manifest keeps them,
because a resume needs them; everything that is shown or exported has them masked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

MASK = "***"
_URI = re.compile(r"postgres(ql)?://")
_PAIR = re.compile(r"([^\s=]+)(\s*=\s*)('(?:[^'\\]|\\.)*'?|(?:[^\s\\]|\\.)*)", re.DOTALL)
"""As libpq reads `keyword = value`, one after the other: an `options=` inside of another value is none."""
_PARAMETER = re.compile(r"([^?&=]+)(=)([^&]*)")


def masked_dsn(dsn: str) -> str:
    """A libpq connection string or URI without what its `options` hold."""
    if _URI.match(dsn) is None:
        return _PAIR.sub(_masked, dsn)
    address, mark, query = dsn.partition("?")
    return address + mark + _PARAMETER.sub(_masked, query)


def masked_plan(plan: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a resolved plan, or of a part of one, whose connection strings are masked."""
    return {name: _masked_value(name, value) for name, value in plan.items()}


def _masked_value(name: str, value: object) -> object:
    if isinstance(value, Mapping):
        return masked_plan(value)
    if isinstance(value, list):
        return [_masked_value(name, each) for each in value]
    return masked_dsn(value) if name == "dsn" and isinstance(value, str) else value


def _masked(pair: re.Match[str]) -> str:
    return f"{pair[1]}{pair[2]}{MASK}" if unquote(pair[1]) == "options" else pair[0]
