"""Writes a plan's phases as the file for the engine's `--phases`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from pgdyno.plan.model import PhaseSpec


def phases_toml(phases: Sequence[PhaseSpec]) -> str:
    """Formats `phases` as TOML, one table each, without unset keys."""
    tables = []
    for phase in phases:
        given = phase.model_dump(mode="json", exclude_none=True)
        tables.append("\n".join(["[[phase]]", *(f"{key} = {_value(value)}" for key, value in given.items())]))
    return "\n\n".join(tables) + "\n"


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_value(each)}" for key, each in value.items()) + " }"
    # JSON's strings, numbers and booleans are valid TOML
    return json.dumps(value)
