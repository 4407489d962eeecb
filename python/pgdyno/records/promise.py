"""A promise: a limit of one figure of a load, such as `p99 < 20ms`. One on a latency is also a latency target."""

import operator
import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import NamedTuple

from pgdyno.errors import InvalidValueError
from pgdyno.units import parse_bytes, parse_duration_s

LATENCIES: Mapping[str, str] = {
    "p50": "p50",
    "p75": "p75",
    "p90": "p90",
    "p95": "p95",
    "p99": "p99",
    "p99.9": "p999",
    "p99.99": "p9999",
    "mean": "mean",
    "max": "max",
}
"""Figures of a latency, with their names in a trial's record."""
FIGURES = (*LATENCIES, "rate", "tps", "errors", "lag", "archive")
"""`rate` is the share of the due transactions that succeeded, `errors` the share of transactions that failed, `lag` the
longest replay lag of a standby, `archive` the WAL that waits for the archive at the end.
"""
OF_FOLLOWERS = ("lag", "archive")
"""Figures of the server's standbys and archive, not of the load."""
KEEPS_UP = "archive keeps up"
_IN_TRANSIT = 2 << 24
"""Bytes of two WAL files: one that was just finished, and one that is being archived."""
_SHARES = {"rate": ">= 95%", "errors": "< 0.1%"}
"""Figures that are shares, each with an example."""
_SIGNS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_PROMISE = re.compile(r"\s*([A-Za-z][\w.]*)\s*([<>]=?)\s*(.+?)\s*")
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)\s*(.*)")
_BEFORE_UNIT = re.compile(r"(?<=\d)\s*(?=[A-Za-z%])")
_EXAMPLES = '"p99 < 20ms", "rate >= 95%", "errors < 0.1%" or "tps >= 500"'


class Promise(NamedTuple):
    text: str
    """As in the plan: `p99 < 20ms`."""
    figure: str
    sign: str
    limit: float
    """Nanoseconds of a latency or a lag, transactions per second of `tps`, bytes of `archive`, else a share: 0.95 for
    95 %.
    """

    @property
    def field(self) -> str | None:
        """The figure's name in the record of a latency; None for others."""
        return LATENCIES.get(self.figure)

    @property
    def is_ceiling(self) -> bool:
        return self.sign.startswith("<")

    @property
    def words(self) -> str:
        """The promise for a sentence, with a space before each unit: `p99 < 20 ms`."""
        if self.text == KEEPS_UP:
            return self.text
        return _BEFORE_UNIT.sub(" ", f"{self.figure} {self.sign} {self.text.split(self.sign)[1].strip()}")

    def allows(self, figure: float) -> bool:
        kept: bool = _SIGNS[self.sign](figure, self.limit)
        return kept


def parse_promise(text: str) -> Promise:
    """Parse a promise. Raises ValueError with the correct format."""
    if " ".join(text.split()) == KEEPS_UP:
        return Promise(KEEPS_UP, "archive", "<=", _IN_TRANSIT)
    match = _PROMISE.fullmatch(text)
    if match is None:
        raise InvalidValueError(f"{text!r} is not a promise", f"write {_EXAMPLES}")
    figure, sign, limit = match.groups()
    if figure not in FIGURES:
        near = get_close_matches(figure.lower(), FIGURES, n=1)
        hint = f"did you mean {near[0]}?" if near else f"figures: {', '.join(FIGURES)}"
        raise InvalidValueError(f"{text!r} is on an unknown figure, {figure}", hint)
    found = Promise(" ".join(text.split()), figure, sign, _limit(figure, limit))
    if (sign, found.limit) == ("<", 0) or (figure in _SHARES and (sign, found.limit) == (">", 1)):
        raise InvalidValueError(f"{text!r} can never be kept", f"write {figure} {sign}= {limit}")
    return found


def parse_latency(text: str) -> Promise:
    """Parse a latency target, such as `p99 < 10ms`. Raises ValueError with the correct format."""
    match = _PROMISE.fullmatch(text)
    if match is None or match[1] not in LATENCIES or not match[2].startswith("<"):
        raise InvalidValueError(
            f"{text!r} is not a latency target", f'write "p99 < 10ms", on one of {", ".join(LATENCIES)}'
        )
    return parse_promise(text)


def _limit(figure: str, text: str) -> float:
    if figure == "archive":
        return parse_bytes(text)
    if figure in LATENCIES or figure == "lag":
        limit_ns = parse_duration_s(text) * 1e9
        if limit_ns <= 0:
            raise InvalidValueError(f"a limit of {text} is no time", "write more than 0ms")
        return limit_ns
    match = _NUMBER.fullmatch(text)
    if figure == "tps":
        if match is None or match[2]:
            raise InvalidValueError(f"{text!r} is not a throughput", "write a number per second, such as tps >= 500")
        return float(match[1])
    if match is None or match[2] != "%" or float(match[1]) > 100:
        raise InvalidValueError(f"{text!r} is not a share", f"write a percentage, such as {figure} {_SHARES[figure]}")
    return float(match[1]) / 100
