"""Names targets after headings or columns, extended until they are distinct."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence

from pgdyno.importers.documents.command_lines import prefix_of
from pgdyno.importers.documents.repeats import variants
from pgdyno.importers.parsed import Output

_PARTS: Sequence[Callable[[Output], str]] = (
    lambda output: output.words.get("rows", ""),
    lambda output: output.words.get("host", ""),
    lambda output: output.words.get("heading", ""),
    lambda output: ", ".join(output.place[:-1]),
    lambda output: ", ".join(output.place),
    lambda output: output.server,
    lambda output: output.words.get("route", ""),
    lambda output: output.words.get("prompt", ""),
    lambda output: f"{output.tool} {output.version}" if output.version is not None else "",
    lambda output: output.words.get("server_version", ""),
)
"""Additions to names that would be equal, in this order: rows of a table, the machine, the heading, the headings above
it, the server of the command line, what runs it elsewhere, the host of its prompt, the versions of tool and server.
"""


def name_targets(outputs: Sequence[Output], fallback: str, wanted: str | None = None) -> int:
    """Name the target of each of `outputs`; equal names of targets in different tables do not collide.

    Return how many outputs have the settings of an earlier one but are not repeats, because text separates them.

    `wanted` replaces the headings; names of a table's columns stay. `fallback` is for outputs without a name. If
    `wanted` is given, text between outputs does not separate them, because the user knows what was measured.
    """
    for output in outputs:
        if wanted is not None and "heading" not in output.words and not output.has_target_column:
            if output.target is not None:
                output.words["heading"] = output.target
            output.target = wanted
    _fill_servers(outputs)
    known = [(output.target or fallback, output.group, *(part(output) for part in _PARTS)) for output in outputs]
    apart = variants(outputs, known) if wanted is None else [0] * len(outputs)
    groups: dict[Hashable, list[Output]] = defaultdict(list)
    for output, *identity in zip(outputs, known, apart, strict=True):
        groups[tuple(identity)].append(output)
    by_name: dict[str, list[list[Output]]] = defaultdict(list)
    for members in groups.values():
        by_name[members[0].target or fallback].append(members)
    for name, alike in by_name.items():
        _tell_apart(name, alike, list(_PARTS))
    return sum(variant > 0 for variant in apart)


def _fill_servers(outputs: Sequence[Output]) -> None:
    by_place: dict[Hashable, list[Output]] = defaultdict(list)
    for output in outputs:
        by_place[output.tool, output.place].append(output)
    for alike in by_place.values():
        prefixes = [None if output.command is None else prefix_of(output.command) for output in alike]
        # a command line without a server or a route uses its own machine's, but a prompt may show no host
        servers = _fill_gaps([output.server or (None if output.command is None else "") for output in alike])
        routes = _fill_gaps([None if prefix is None else prefix.route for prefix in prefixes])
        hosts = _fill_gaps([None if prefix is None else prefix.host or None for prefix in prefixes])
        for output, server, route, host in zip(alike, servers, routes, hosts, strict=True):
            output.server = server
            output.words |= {name: value for name, value in (("route", route), ("prompt", host)) if value}


def _fill_gaps(values: Sequence[str | None]) -> list[str]:
    known = [value for value in values if value is not None]
    if len(set(known)) < 2:
        return [""] * len(values)
    filled, last = [], ""
    for value in values:
        last = last if value is None else value
        filled.append(last)
    return filled


def _tell_apart(name: str, groups: Sequence[list[Output]], parts: list[Callable[[Output], str]]) -> None:
    if len(groups) == 1 or not parts:
        for number, members in enumerate(groups, start=1):
            for output in members:
                output.trial_target = name if number == 1 else f"{name} ({number})"
        return
    split: dict[str, list[list[Output]]] = defaultdict(list)
    for members in groups:
        split[parts[0](members[0])].append(members)
    for word, alike in split.items():
        is_told = word and len(split) > 1 and word not in name
        _tell_apart(f"{name}, {word}" if is_told else name, alike, parts[1:])
