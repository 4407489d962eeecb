"""Names of targets: what a heading or a column says, with as much more as tells one table from another."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence

from pgdyno.importers.found import Output

_PARTS: Sequence[Callable[[Output], str]] = (
    lambda output: output.words.get("rows", ""),
    lambda output: output.words.get("host", ""),
    lambda output: output.words.get("heading", ""),
)
"""What is added to names that would be the same: rows of a table, the machine, the heading, in this order."""


def name_targets(outputs: Sequence[Output], fallback: str, wanted: str | None = None) -> list[str]:
    """A target for each of `outputs`, in their order; tables whose targets are called the same do not collide.

    `wanted` stands for what headings say; names of a table's columns stay. `fallback` is for outputs that
    nothing names.
    """
    for output in outputs:
        if wanted is not None and "heading" not in output.words and output.tool != "csv":
            if output.target is not None:
                output.words["heading"] = output.target
            output.target = wanted
    groups: dict[Hashable, list[int]] = defaultdict(list)
    for at, output in enumerate(outputs):
        groups[_identity(output, fallback)].append(at)
    by_name: dict[str, list[list[int]]] = defaultdict(list)
    for members in groups.values():
        by_name[outputs[members[0]].target or fallback].append(members)
    names = [""] * len(outputs)
    for name, alike in by_name.items():
        _tell_apart(name, alike, outputs, list(_PARTS), names)
    return names


def _identity(output: Output, fallback: str) -> Hashable:
    return (output.target or fallback, output.group, *(part(output) for part in _PARTS))


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
        _tell_apart(f"{name}, {word}" if word and len(split) > 1 else name, alike, outputs, parts[1:], names)
