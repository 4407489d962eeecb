"""Which imported outputs are repeats of one measurement, and which rows of tables show an output once more.

Repeats are those of one target that have the same settings, unless text between them may say that something else was
measured.
"""

import re
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence

from pgdyno.importers.documents.command_lines import prefix_of
from pgdyno.importers.parsed import RATES, Output


def variants(outputs: Sequence[Output], targets: Sequence[Hashable]) -> list[int]:
    """Return 0 for outputs that nothing separates from the first of their settings; 1, 2 … after text in between, or
    other text before the command.

    `targets` are those of the outputs, as far as words tell them apart.
    """
    sections: dict[Hashable, dict[Hashable, int]] = defaultdict(dict)
    found = []
    before: dict[Hashable, tuple[str, str]] = {}
    for output, target in zip(outputs, targets, strict=True):
        if output.group or output.tool == "csv":
            found.append(0)
            continue
        folder, text = before.get((output.tool, output.place), ("", ""))
        if output.command is not None:
            prefix = prefix_of(output.command)
            # a program without its folder may be the same one
            folder, text = prefix.folder or folder, prefix.text
            before[output.tool, output.place] = folder, text
        seen = sections[target, settings_of(output), output.transactions_per_client]
        apart = (output.section, folder, text)
        found.append(seen.setdefault(apart, len(seen)))
    return found


def settings_of(output: Output) -> Hashable:
    """Return what two outputs must have in common to be repeats, besides their length and their server."""
    variables = tuple(sorted(output.variables.items()))
    return (
        output.workload, output.scale, output.warehouses, output.clients, output.workers, output.protocol, output.rate,
        output.options, variables,
    )  # fmt: skip


_COMPARED = ("tps", "transactions", "latency_mean_ms", "latency_stddev_ms", "duration_s", "qps", "nopm", "tpm")
MOST_ALIKE = 50
"""Outputs of about the same rate that a row is compared with."""
_CERTAIN_DIGITS = 4
"""Significant digits of a rate: with fewer, another figure must agree, too."""


def repeated_rows(outputs: Sequence[Output]) -> Iterator[tuple[Output, Output]]:
    """Yield each row of a table that has the figures of a tool's output, to the row's rounding, with that output."""
    raw: dict[tuple[str, int], list[Output]] = defaultdict(list)
    for output in outputs:
        if not output.group and output.tool not in ("table", "csv"):
            for name in RATES:
                for value in _values(output, name):
                    raw[name, int(value)].append(output)
    for row in outputs:
        if row.tool != "table" or not row.group:
            continue
        # outputs whose rate differs from that of the row by less than two
        keys = [
            (name, whole)
            for name in RATES
            if (value := getattr(row, name)) is not None
            for whole in range(int(value) - 1, int(value) + 2)
        ]
        alike = (each for key in keys for each in raw.get(key, ())[:MOST_ALIKE] if _is_same(row, each))
        original = next(alike, None)
        if original is not None:
            yield row, original


def _is_same(row: Output, raw: Output) -> bool:
    if row.clients is not None and raw.clients is not None and row.clients != raw.clients:
        return False
    shown = {name: value for name in _COMPARED if (value := getattr(row, name)) is not None}
    common = [name for name in shown if _values(raw, name)]
    rates = [name for name in common if name in RATES]
    if not rates or not all(any(_rounds_to(shown[name], each) for each in _values(raw, name)) for name in common):
        return False
    digits = re.sub(r"\D", "", f"{shown[rates[0]]:.10g}").strip("0")
    return len(common) > 1 or len(digits) >= _CERTAIN_DIGITS


def _values(raw: Output, name: str) -> list[float]:
    names = ("tps", "tps_including_connections") if name == "tps" else (name,)
    return [value for each in names if (value := getattr(raw, each)) is not None]


def _rounds_to(shown: float, exact: float) -> bool:
    return abs(shown - exact) < 10.0 ** -len(f"{shown:.10g}".partition(".")[2])
