"""The results of the plan's search, in lines."""

from __future__ import annotations

from pgdyno.records import Manifest
from pgdyno.report import numbers
from pgdyno.report.texts import gettext, translated


def search_lines(manifest: Manifest) -> list[str]:
    """Return a line for each search of a run; empty without one, and while it runs."""
    several = len(manifest.search) > 1
    lines = []
    for each in manifest.search:
        point = {name: value for name, value in each.point if name not in ("clients", "rate") and value}
        where = [f"target {each.target}", *(f"{name} {value}" for name, value in point.items())]
        # an older record has only the sentence
        found = gettext("; ").join(translated(part.message) for part in each.messages) or each.words
        line = f"{', '.join(where)}: {found}" if several else found
        lines.append(f"{line} ({numbers.trials(each.trials)})")
    return lines
