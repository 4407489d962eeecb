"""Names of targets: what a heading or a column says, with as much more as tells one from another.

Outputs become repeats of one target only where nothing between them says that something else was measured.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence

from pgdyno.importers.found import Output

_PARTS: Sequence[Callable[[Output], str]] = (
    lambda output: output.words.get("rows", ""),
    lambda output: output.words.get("host", ""),
    lambda output: output.words.get("heading", ""),
    lambda output: ", ".join(output.place[:-1]),
    lambda output: ", ".join(output.place),
    lambda output: output.server,
    lambda output: f"{output.tool} {output.version}" if output.version is not None else "",
    lambda output: output.words.get("server_version", ""),
)
"""What is added to names that would be the same, in this order: rows of a table, the machine, the heading, the
headings above it, the server of the command line, the tool's version and the server's."""


def name_targets(outputs: Sequence[Output], fallback: str, wanted: str | None = None) -> list[str]:
    """A target for each of `outputs`, in their order; tables whose targets are called the same do not collide.

    `wanted` stands for what headings say; names of a table's columns stay. `fallback` is for outputs that
    nothing names. Where `wanted` is given, text between outputs does not part them: who gives it knows better.
    """
    for output in outputs:
        if wanted is not None and "heading" not in output.words and output.tool != "csv":
            if output.target is not None:
                output.words["heading"] = output.target
            output.target = wanted
    _fill_servers(outputs)
    variants = _variants(outputs, fallback) if wanted is None else [0] * len(outputs)
    groups: dict[Hashable, list[int]] = defaultdict(list)
    for at, output in enumerate(outputs):
        groups[(*_identity(output, fallback), variants[at])].append(at)
    by_name: dict[str, list[list[int]]] = defaultdict(list)
    for members in groups.values():
        by_name[outputs[members[0]].target or fallback].append(members)
    names = [""] * len(outputs)
    for name, alike in by_name.items():
        _tell_apart(name, alike, outputs, list(_PARTS), names)
    return names


def _fill_servers(outputs: Sequence[Output]) -> None:
    """An output without a command line is of the server of the one before it; one server tells nothing apart."""
    by_place: dict[Hashable, list[Output]] = defaultdict(list)
    for output in outputs:
        by_place[output.tool, output.place].append(output)
    for alike in by_place.values():
        known = {output.server for output in alike if output.server}
        last = ""
        for output in alike:
            last = output.server or last
            output.server = last if len(known) > 1 else ""


def undecided(outputs: Sequence[Output], fallback: str) -> int:
    """How many outputs have the settings of an earlier one, and are no repeats as text stands between them."""
    return sum(variant > 0 for variant in _variants(outputs, fallback))


def _identity(output: Output, fallback: str) -> tuple[Hashable, ...]:
    return (output.target or fallback, output.group, *(part(output) for part in _PARTS))


def _variants(outputs: Sequence[Output], fallback: str) -> list[int]:
    """0 for outputs that nothing parts from the first of their settings; 1, 2 … where text stands between them."""
    sections: dict[Hashable, list[int]] = defaultdict(list)
    variants = []
    for output in outputs:
        if output.group or output.tool == "csv":
            variants.append(0)
            continue
        seen = sections[(*_identity(output, fallback), _settings(output))]
        if output.section not in seen:
            seen.append(output.section)
        variants.append(seen.index(output.section))
    return variants


def _settings(output: Output) -> Hashable:
    """What two outputs have alike that may be repeats."""
    variables = tuple(sorted(output.variables.items()))
    return (
        output.workload, output.scale, output.warehouses, output.clients, output.workers, output.protocol, output.rate,
        output.transactions_per_client, output.options, variables,
    )  # fmt: skip


def _tell_apart(
    name: str,
    groups: Sequence[list[int]],
    outputs: Sequence[Output],
    parts: list[Callable[[Output], str]],
    names: list[str],
) -> None:
    """Names the members of `groups`, all called `name` so far."""
    if len(groups) == 1 or not parts:
        for number, members in enumerate(groups, start=1):
            for at in members:
                names[at] = name if number == 1 else f"{name} ({number})"
        return
    split: dict[str, list[list[int]]] = defaultdict(list)
    for members in groups:
        split[parts[0](outputs[members[0]])].append(members)
    for word, alike in split.items():
        is_told = word and len(split) > 1 and word not in name
        _tell_apart(f"{name}, {word}" if is_told else name, alike, outputs, parts[1:], names)
