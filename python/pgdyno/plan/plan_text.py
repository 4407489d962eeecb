"""Writes the plans of commands, `ab` and others, as TOML that `pgdyno run` reads, too."""

import json
import re
from collections.abc import Mapping

Table = dict[str, object]
_REASONS = {
    "checkpoint = false": "a server in use makes its own checkpoints",
    'method = "snapshot"': "each trial begins with the same files",
    'until = "recovered"': "duration is the longest time",
}
"""Comments on lines that people ask about."""


def plan_text(command: str, plan: Table, tables: Mapping[str, Mapping[str, object]]) -> str:
    """Return the plan of `command`: its own keys, then `tables` by name, without empty ones."""
    lines = [f"# written by pgdyno {command}", *_lines(plan)]
    for name, table in tables.items():
        if table:
            brackets = "[[{}]]" if name == "event" else "[{}]"
            lines += ["", brackets.format(name), *_lines(table)]
    return "".join(f"{line}     # {_REASONS[line]}\n" if line in _REASONS else f"{line}\n" for line in lines)


def _lines(table: Mapping[str, object]) -> list[str]:
    return [f"{_key(key)} = {_value(value)}" for key, value in table.items()]


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml_text(name)


def _value(value: object) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(_lines(value))} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return toml_text(value)


def toml_text(value: object) -> str:
    """Return a text, a number or a boolean in TOML."""
    # JSON's are valid TOML, except numbers such as nan
    return repr(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)
