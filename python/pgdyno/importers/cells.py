"""Parses cells of published tables: a figure with its unit, and any remaining text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pgdyno.importers.numbers import LONGEST_NUMBER

_CELL = re.compile(
    r"[~≈]?\s?(?P<digits>\d(?:[\d.,'’\u00a0\u202f\u2009 ](?=\d)|\d){0,38})(?P<thousand>[kK](?![a-zA-Z]))?"  # noqa: RUF001
    r"\s?(?P<unit>milliseconds|msec|ms|µs|μs|us|seconds|secs?|s|min|m|tps|qps|tpmc|tpm|nopm|/s|clients?|threads?|"
    r"connections?|users?|vus?|c)?(?P<rest>.*)$",
    re.IGNORECASE,
)
_SPACED = re.compile(r"\d{1,3}(?:[\u00a0\u202f\u2009 '’]\d{3})+(?:[.,]\d+)?")  # noqa: RUF001
_NOTE = re.compile(r"\s|[(\[{<‹«←*†‡¹²³,;!✓✅⚠]|--|/s")  # noqa: RUF001
_NO_FIGURE = re.compile(r"\s?[/%–-]\s?\d|\s?%|\s?x\b|\s?×")  # noqa: RUF001
"""After a number: the rest of a range, of a pair, of a share or of a ratio."""
_FACTORS = {"s": 1e3, "sec": 1e3, "secs": 1e3, "seconds": 1e3, "µs": 1e-3, "μs": 1e-3, "us": 1e-3}


@dataclass(frozen=True, slots=True)
class Figure:
    """A number as printed in a cell."""

    digits: str
    thousand: bool
    unit: str

    @property
    def to_ms(self) -> float | None:
        """Return the factor from its unit to milliseconds; None without a unit."""
        return _FACTORS.get(self.unit, 1.0) if self.unit else None


@dataclass(frozen=True, slots=True)
class Style:
    """The number format of a table, or of a column."""

    decimal: str = "."

    def value(self, figure: Figure) -> float:
        """Return the number. Raises ValueError."""
        digits = figure.digits
        if _SPACED.fullmatch(digits):
            digits = re.sub(r"[\u00a0\u202f\u2009 '’]", "", digits)  # noqa: RUF001
        thousands = "," if self.decimal == "." else "."
        if not re.fullmatch(
            rf"\d{{1,3}}(?:{re.escape(thousands)}\d{{3}})+(?:{re.escape(self.decimal)}\d+)?|\d+(?:{re.escape(self.decimal)}\d+)?",
            digits,
        ):
            raise ValueError(f"{figure.digits!r} is no number")
        value = float(digits.replace(thousands, "").replace(self.decimal, "."))
        return value * 1000 if figure.thousand else value


def figure_of(cell: str) -> Figure | None:
    """Return the number with which `cell` begins, without a note after it; None for other cells."""
    text = cell.replace("**", "").replace("`", "").replace("__", "").strip()
    if not text or len(text) > 400:
        return None
    match = _CELL.match(text)
    if match is None or len(match["digits"]) > LONGEST_NUMBER:
        return None
    digits, rest = match["digits"], match["rest"]
    if " " in digits and not _SPACED.fullmatch(digits):
        digits, _, more = digits.partition(" ")
        rest = f" {more}{rest}"
    if rest and (not _NOTE.match(rest) or _NO_FIGURE.match(rest)):
        return None
    return Figure(digits, bool(match["thousand"]), (match["unit"] or "").lower())


def style_of(figures: Sequence[Figure]) -> Style:
    """Return the number format of `figures`, of one table: with a decimal comma only if nothing else makes sense."""
    comma = any(
        re.fullmatch(r"\d+(?:\.\d{3})*,\d{1,2}|\d+,\d{4,}|0,\d+|\d{1,3}(?:\.\d{3})+,\d+", each.digits)
        for each in figures
    )
    dotted = any(re.fullmatch(r"\d{1,3}(?:\.\d{3}){2,}", each.digits) for each in figures)
    english = any(
        re.fullmatch(r"\d+(?:,\d{3})*\.(?:\d{1,2}|\d{4,})|\d{1,3}(?:,\d{3})+\.\d+|0\.\d+", each.digits)
        for each in figures
    )
    return Style(",") if (comma or dotted) and not english else Style()
