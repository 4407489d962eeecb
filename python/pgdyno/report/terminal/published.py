"""Published figures compared with the measured ones, for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from pgdyno.published import Published, published, published_names
from pgdyno.records import Manifest
from pgdyno.report import numbers
from pgdyno.report.report_content import Digest
from pgdyno.report.report_tables import Table, text_lines
from pgdyno.report.sections.comparison import published_table

MOST_ROWS = 24
HEADINGS = ("point", "published for", "measured", "published", "measured / published")


def asked_for(manifest: Manifest) -> Published | None:
    """Return the figures that the plan names in [published]; None without any that this version knows."""
    asked = manifest.plan.get("published") or {}
    name = asked.get("data") if isinstance(asked, Mapping) else None
    return published(name) if name in published_names() else None


def published_lines(of: Digest) -> list[str]:
    """Return the source, then a row for each point and its published figure; nothing if the plan names no figures."""
    data = asked_for(of.manifest)
    if data is None:
        return []
    title = f"“{data.source.title}” ({data.source.publisher}, PostgreSQL {data.source.postgresql})"
    table = published_table(of, data)
    if table is None:
        return [f"published: {title} has no figure for these points: {_theirs(data)}"]
    rows = [_row(list(same)) for _, same in groupby(table.rows, key=lambda row: row[:2])]
    shown = Table(title, HEADINGS, tuple(rows[:MOST_ROWS]), text_columns=2)
    lines = [f"published: {title}; transactions a second", *text_lines(shown)]
    if len(rows) > MOST_ROWS:
        lines.append(f"and {len(rows) - MOST_ROWS} more in the HTML report")
    return lines


def _row(same: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    point, target, measured, *_ = same[0]
    return (point, target, measured, _span([row[3] for row in same]), _span([row[4] for row in same]))


def _span(cells: Sequence[str]) -> str:
    known = sorted(
        (cell for cell in set(cells) if cell != numbers.NOTHING), key=lambda cell: float(cell.replace(",", ""))
    )
    if not known:
        return numbers.NOTHING
    return known[0] if len(known) == 1 else f"{known[0]} to {known[-1]}"


def _theirs(data: Published) -> str:
    """Describe the published points: `scale 100, clients 64`."""
    found = []
    for name in ("scale", "warehouses", "clients"):
        values = sorted({float(row[name]) for row in data.rows if name in row})
        if values:
            ends = f"{values[0]:,.0f}" + (f" to {values[-1]:,.0f}" if len(values) > 1 else "")
            found.append(f"{name} {ends}")
    return f"it has {', '.join(found)}"
