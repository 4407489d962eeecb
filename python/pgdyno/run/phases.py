"""A plan's phases as the file that the engine reads (`--phases`)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from pgdyno.plan.model import PhaseSpec


def phases_toml(phases: Sequence[PhaseSpec]) -> str:
    """`phases` as TOML: a table each, without what was left out."""
    tables = []
    for phase in phases:
        given = phase.model_dump(mode="json", exclude_none=True)
        tables.append("\n".join(["[[phase]]", *(f"{key} = {_value(value)}" for key, value in given.items())]))
    return "\n\n".join(tables) + "\n"


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_value(each)}" for key, each in value.items()) + " }"
    # JSON's texts, numbers and truth values are TOML's as well
    return json.dumps(value)
