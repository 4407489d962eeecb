"""Rows of a table that repeat outputs above or below it: a summary of the same trials, which are counted once."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from pgdyno.importers.parsed import Output

_COMPARED = ("tps", "transactions", "latency_mean_ms", "latency_stddev_ms", "duration_s", "qps", "nopm", "tpm")
_RATES = ("tps", "qps", "nopm", "tpm")
MOST_ALIKE = 50
"""Outputs of about the same rate that a row is compared with."""
_CERTAIN_DIGITS = 4
"""Significant digits of a rate: with fewer, another figure must agree, too."""


def repeated_rows(outputs: Sequence[Output]) -> Iterator[tuple[Output, Output]]:
    """Yield each row of a table that has the figures of a tool's output, to the row's rounding, with that output."""
    raw: dict[tuple[str, int], list[Output]] = defaultdict(list)
    for output in outputs:
        if not output.group and output.tool not in ("table", "csv"):
            for name in _RATES:
                for value in _values(output, name):
                    raw[name, int(value)].append(output)
    for row in outputs:
        if row.tool == "table" and row.group:
            original = next((each for each in _candidates(row, raw) if _is_same(row, each)), None)
            if original is not None:
                yield row, original


def _candidates(row: Output, raw: Mapping[tuple[str, int], list[Output]]) -> Iterator[Output]:
    for name in _RATES:
        value = getattr(row, name)
        for whole in () if value is None else range(int(value) - 1, int(value) + 2):
            yield from raw.get((name, whole), ())[:MOST_ALIKE]


def _is_same(row: Output, raw: Output) -> bool:
    if row.clients is not None and raw.clients is not None and row.clients != raw.clients:
        return False
    shown = {name: value for name in _COMPARED if (value := getattr(row, name)) is not None}
    common = [name for name in shown if _values(raw, name)]
    rates = [name for name in common if name in _RATES]
    if not rates or not all(any(_rounds_to(shown[name], each) for each in _values(raw, name)) for name in common):
        return False
    return len(common) > 1 or len(_digits(shown[rates[0]])) >= _CERTAIN_DIGITS


def _values(raw: Output, name: str) -> list[float]:
    names = ("tps", "tps_including_connections") if name == "tps" else (name,)
    return [value for each in names if (value := getattr(raw, each)) is not None]


def _digits(value: float) -> str:
    return re.sub(r"\D", "", f"{value:.10g}").strip("0")


def _rounds_to(shown: float, exact: float) -> bool:
    decimals = len(f"{shown:.10g}".partition(".")[2])
    return abs(shown - exact) < 10.0**-decimals
