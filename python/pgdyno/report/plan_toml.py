"""A manifest's plan as a file that can be run again."""

import re
from collections.abc import Mapping
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
_SECONDS = {
    ("trial", "warmup"),
    ("trial", "duration"),
    ("trial", "pause"),
    ("trial", "reconnect"),
    ("event", "at"),
    ("event", "for"),
    ("group", "begin"),
    ("group", "end"),
    ("hooks", "timeout"),
    ("step", "duration"),
}
"""Keys that a manifest stores as seconds, and a plan requires with a unit."""


def plan_toml(plan: Mapping[str, Any]) -> str:
    """Return `plan` as a file; keys without a value are left out, because TOML has no null."""
    lines: list[str] = []
    _table(lines, (), plan)
    return "\n".join(lines).strip() + "\n"


def _table(lines: list[str], path: tuple[str, ...], table: Mapping[str, Any]) -> None:
    plain = {key: value for key, value in table.items() if value is not None and not isinstance(value, Mapping)}
    nested = {key: value for key, value in table.items() if isinstance(value, Mapping)}
    # the table itself may be the statement, as in subscriber = {}
    if path and (plain or not any(nested.values())):
        lines += ["", f"[{'.'.join(_key(part) for part in path)}]"]
    for key, value in plain.items():
        lines.append(f"{_key(key)} = {_value((*path, key), value)}")
    for key, value in nested.items():
        if value:
            _table(lines, (*path, key), value)


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _text(key)


def _value(path: tuple[str, ...], value: object) -> str:
    if path in _SECONDS and isinstance(value, (int, float)):
        return _text(f"{value:.10g}s")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(path, each) for each in value) + "]"
    if isinstance(value, Mapping):
        given = [
            f"{_key(str(key))} = {_value((*path, str(key)), each)}" for key, each in value.items() if each is not None
        ]
        return "{ " + ", ".join(given) + " }"
    return _text(str(value))


def _text(text: str) -> str:
    return '"' + "".join(_ESCAPES.get(each) or (each if each.isprintable() else _unicode(each)) for each in text) + '"'


def _unicode(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"
