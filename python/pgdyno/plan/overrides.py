"""`--set path=value`: replaces keys of a plan from the command line."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from pgdyno.errors import UsageError
from pgdyno.plan.lines import Path, dotted, split_assignment

_HINT = "such as --set trial.duration=5s or --set sweep.clients=[1,2]"


def apply_overrides(data: Mapping[str, Any], overrides: Sequence[str]) -> tuple[dict[str, Any], frozenset[Path]]:
    """Applies each of `overrides` to `data` in turn; returns it with the paths that they set.

    Creates missing tables; an element of a list (`sweep.clients[0]`) must exist. Raises UsageError for an invalid
    override.
    """
    changed = copy.deepcopy(dict(data))
    paths = set()
    for override in overrides:
        try:
            path, text = split_assignment(override)
            _put(changed, path, _value(text))
        except ValueError as error:
            raise UsageError(f"cannot apply --set {override}: {error}", hint=_HINT) from error
        paths.add(path)
    return changed, frozenset(paths)


def _value(text: str) -> object:
    """Parses `text` as TOML, or else as a bare word."""
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError as error:
        if text.lstrip()[:1] in tuple("[{\"'") or "\n" in text:
            raise ValueError("the value is not valid TOML") from error
        return text.strip()
    if list(parsed) != ["value"]:
        raise ValueError("give one value")
    value: object = parsed["value"]
    return value


def _put(data: dict[str, Any], path: Path, value: object) -> None:
    node: Any = data
    for length, key in enumerate(path[:-1], start=1):
        if isinstance(node, dict) and isinstance(key, str):
            node = node.setdefault(key, {})
        else:
            node = node[_place(node, key, path[:length])]
    key = path[-1]
    if isinstance(node, dict) and isinstance(key, str):
        node[key] = value
    else:
        node[_place(node, key, path)] = value


def _place(node: object, key: str | int, path: Path) -> int:
    """Returns the index `key` of the list `node` in the middle of `path`. Raises ValueError."""
    around = dotted(path[:-1])
    if not isinstance(node, list):
        what = "a table" if isinstance(node, dict) else "one value"
        raise ValueError(f"{around} is {what}, {'not a list' if isinstance(key, int) else 'not a table'}")
    if not isinstance(key, int):
        if not key.isdigit():
            raise ValueError(f"{around} is a list; its elements are {around}[0] and so on")
        key = int(key)
    if key >= len(node):
        raise ValueError(f"{around} has {len(node)} elements, counted from 0")
    return key
