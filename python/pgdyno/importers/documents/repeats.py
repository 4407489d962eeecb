"""Which imported outputs are repeats of one measurement: those of one target that have the same settings, unless text
between them may say that something else was measured.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence

from pgdyno.importers.documents.command_lines import prefix_of
from pgdyno.importers.parsed import Output


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
        seen = sections[target, _settings(output)]
        apart = (output.section, folder, text)
        found.append(seen.setdefault(apart, len(seen)))
    return found


def undecided(outputs: Sequence[Output], targets: Sequence[Hashable]) -> int:
    """Return how many outputs have the settings of an earlier one but are not repeats, because text separates them."""
    return sum(variant > 0 for variant in variants(outputs, targets))


def _settings(output: Output) -> Hashable:
    variables = tuple(sorted(output.variables.items()))
    return (
        output.workload, output.scale, output.warehouses, output.clients, output.workers, output.protocol, output.rate,
        output.transactions_per_client, output.options, variables,
    )  # fmt: skip
