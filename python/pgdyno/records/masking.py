"""Masks secrets in a plan: `options` of a connection string.

They are server settings, which may include a proxy's token or an application's key. A run's manifest keeps them,
because a resume needs them; everything that is displayed or exported has them masked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

MASK = "***"
_URI = re.compile(r"postgres(ql)?://")
_PAIR = re.compile(r"([^\s=]+)(\s*=\s*)('(?:[^'\\]|\\.)*'?|(?:[^\s\\]|\\.)*)", re.DOTALL)
"""As libpq reads consecutive `keyword = value` pairs: an `options=` inside another value does not match."""
_PARAMETER = re.compile(r"([^?&=]+)(=)([^&]*)")


def masked_dsn(dsn: str) -> str:
    """Return a libpq connection string or URI with its `options` masked."""
    if _URI.match(dsn) is None:
        return _PAIR.sub(_masked, dsn)
    address, mark, query = dsn.partition("?")
    return address + mark + _PARAMETER.sub(_masked, query)


def masked_plan(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a resolved plan, or of a part of one, with masked connection strings."""
    return {name: _masked_value(name, value) for name, value in plan.items()}


def _masked_value(name: str, value: object) -> object:
    if isinstance(value, Mapping):
        return masked_plan(value)
    if isinstance(value, list):
        return [_masked_value(name, each) for each in value]
    return masked_dsn(value) if name == "dsn" and isinstance(value, str) else value


def _masked(pair: re.Match[str]) -> str:
    return f"{pair[1]}{pair[2]}{MASK}" if unquote(pair[1]) == "options" else pair[0]
