"""Reads durations and sizes, and formats numbers for people."""

import re
from collections.abc import Sequence

from pgdyno.errors import InvalidValueError

_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(us|ms|s|m|min|h|d)\s*")
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}

LONGEST_DAYS = 24_855
"""The engine and PostgreSQL count seconds with 31 bits."""

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(B|kB|MB|GB|TB)\s*")
BYTES = {"B": 1, "kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
MICROSECONDS = {"us": 1, "ms": 10**3, "s": 10**6, "min": 60 * 10**6, "h": 3600 * 10**6, "d": 86400 * 10**6}
"""PostgreSQL's units, each in the smallest of its kind."""


Value = float | str
"""Of a setting: a number of bytes, milliseconds or nothing, or a text."""
_NUMBER = re.compile(r"(-?\d+(?:\.\d+)?)\s*(.*)")
_UNITS = {**BYTES, **{unit: size / 1000 for unit, size in MICROSECONDS.items()}}


def parse_duration_s(text: str) -> float:
    """Return the seconds in `text`: "10s", "1.5m", "1h 30m". Raises ValueError with the correct format."""
    at, total = 0, 0.0
    while at < len(text):
        match = _DURATION.match(text, at)
        if match is None:
            break
        total += float(match[1]) * _SECONDS[match[2]]
        at = match.end()
    if at < len(text) or not text.strip():
        raise InvalidValueError(
            f"{text!r} is not a duration", "write a number and a unit, such as 500ms, 10s, 5m or 1h30m"
        )
    if total > LONGEST_DAYS * _SECONDS["d"]:
        raise InvalidValueError(f"{text!r} is too long", f"write at most {LONGEST_DAYS}d")
    return total


def parse_bytes(text: str) -> int:
    """Return the bytes in `text` in PostgreSQL's units, powers of 1024: "512MB", "1.5TB". Raises ValueError."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise InvalidValueError(f"{text!r} is not a size", "write a number and a unit, such as 512MB or 5GB")
    return round(float(match[1]) * BYTES[match[2]])


def format_duration(seconds: float) -> str:
    """Format `seconds` in the two largest relevant units: "11:40 min" becomes "11m40s"."""
    if seconds < 10 and seconds != int(seconds):
        return f"{seconds:.1f}s"
    whole = round(seconds)
    hours, rest = divmod(whole, 3600)
    minutes, secs = divmod(rest, 60)
    if hours:
        return f"{hours}h{minutes:02d}m"
    return f"{minutes}m{secs:02d}s" if minutes else f"{secs}s"


def duration_words(seconds: float) -> str:
    """Format `seconds` for a sentence: "5 s", "11 min 40 s", "2 h 05 min", "1 h"."""
    words = _LETTER.sub(lambda unit: f" {_WORDS[unit[0]]} ", format_duration(seconds)).strip()
    return re.sub(r"(?<=[a-z]) 00 (s|min)$", "", words)


_LETTER = re.compile("[hms]")
_WORDS = {"h": "h", "m": "min", "s": "s"}


def format_significant(number: float, digits: int = 3) -> str:
    """Format `number` with at least `digits` significant digits and thousands separators: 71,300 or 0.0213."""
    if number == 0:
        return "0"
    if abs(number) >= 10 ** (digits - 1):
        return f"{number:,.0f}"
    decimals = digits - 1
    size = abs(number)
    while size < 1:
        size *= 10
        decimals += 1
    while size >= 10:
        size /= 10
        decimals -= 1
    return f"{number:,.{max(decimals, 0)}f}"


def format_size(count: float) -> str:
    """Format `count` bytes in decimal units, as reports and pages do: 14.3 MB."""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 999.5:
            return f"{size:.0f} {unit}" if unit == "B" else f"{format_significant(size)} {unit}"
        size /= 1000
    return f"{format_significant(size)} TB"


def format_bytes(count: int) -> str:
    """Format `count` bytes in binary units: 14.3 MiB."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError("unreachable")


def setting_size(count: int) -> str:
    """Format `count` bytes as a setting, in the largest unit that needs no fraction: 50GB, 1536MB."""
    unit = max((unit for unit in BYTES if count % BYTES[unit] == 0), key=BYTES.__getitem__)
    return f"{count // BYTES[unit]}{unit}"


def setting_value(text: str, unit: str | None = None) -> Value:
    """Return `text` as bytes, milliseconds or a plain number; other text as it is.

    `unit` is the unit in pg_settings, such as 8kB, for a number without one.
    """
    found = _NUMBER.fullmatch(text.strip())
    if found is None:
        return text
    number, own = float(found[1]), found[2] or unit or ""
    times, name = (float(many[1]), many[2]) if (many := _NUMBER.fullmatch(own)) else (1.0, own)
    if not own:
        return number
    size = _UNITS.get(name)
    return text if size is None else number * times * size


def quantity(count: int, noun: str, nouns: str | None = None) -> str:
    """Format a number of things: "1 trial", "2,000 trials". `nouns` is the plural if it does not just end in "s"."""
    return f"{count:,} {noun if count == 1 else nouns or f'{noun}s'}"


def first_names(names: Sequence[str], most: int) -> str:
    """Return the first `most` of `names` as a list, with an ellipsis if there are more: `a, b …`."""
    return ", ".join(names[:most]) + (" …" if len(names) > most else "")
