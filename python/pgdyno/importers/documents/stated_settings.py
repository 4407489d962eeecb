"""Settings of an output whose head its author cut, as the heading above or the first output of its block of code state
them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pgdyno.importers.documents.command_lines import read_options
from pgdyno.importers.parsed import Output

_OPTIONS = re.compile(r"(?<![\w-])-(?:c|j|M|s|S|N|b|f)\s?\w.{0,200}")
"""Options of pgbench in a heading: `-c 32 -j 4 -M prepared`."""
_CLIENTS = re.compile(r"(?<![\w.,])(?P<clients>\d{1,5})\s(?:concurrent\s)?(?:clients?|connections?)\b", re.IGNORECASE)
_INHERITED = ("workload", "scale", "protocol", "clients", "workers")


def fill_settings(output: Output, headings: Sequence[str], first: Output | None) -> None:
    """Fill in what a pgbench output without a head leaves open, from `first`, the output of its block that has one, or
    from `headings`, the nearest last.
    """
    if output.tool != "pgbench" or "workload" in output.printed:
        return
    if first is not None and output.command is None:
        _fill_open(output, first)
    for heading in reversed(headings):
        found = _OPTIONS.search(heading.replace("`", " "))
        stated = Output("pgbench", output.line, output.line)
        if found is not None:
            read_options(stated, f"pgbench {found[0]}", output.line)
        elif (clients := _CLIENTS.search(heading)) is not None:
            stated.put("clients", int(clients["clients"]), output.line, heading)
        _fill_open(output, stated)


def _fill_open(output: Output, stated: Output) -> None:
    for name in _INHERITED:
        if getattr(output, name) is None and getattr(stated, name) is not None:
            setattr(output, name, getattr(stated, name))
            if name in stated.printed:
                output.printed[name] = stated.printed[name]
