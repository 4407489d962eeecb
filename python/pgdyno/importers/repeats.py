"""Which imported outputs are repeats of one measurement: those of one target that have the same settings, unless text
between them may say that something else was measured.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence

from pgdyno.importers.parsed import Output


def variants(outputs: Sequence[Output], targets: Sequence[Hashable]) -> list[int]:
    """Return 0 for outputs that nothing separates from the first of their settings; 1, 2 … after text in between.

    `targets` are those of the outputs, as far as words tell them apart.
    """
    sections: dict[Hashable, list[int]] = defaultdict(list)
    found = []
    for output, target in zip(outputs, targets, strict=True):
        if output.group or output.tool == "csv":
            found.append(0)
            continue
        seen = sections[target, _settings(output)]
        if output.section not in seen:
            seen.append(output.section)
        found.append(seen.index(output.section))
    return found


def undecided(outputs: Sequence[Output], targets: Sequence[Hashable]) -> int:
    """Return how many outputs have the settings of an earlier one but are not repeats, because text separates them."""
    return sum(variant > 0 for variant in variants(outputs, targets))


def _settings(output: Output) -> Hashable:
    """Return what two outputs must have in common to be repeats."""
    variables = tuple(sorted(output.variables.items()))
    return (
        output.workload, output.scale, output.warehouses, output.clients, output.workers, output.protocol, output.rate,
        output.transactions_per_client, output.options, variables,
    )  # fmt: skip
