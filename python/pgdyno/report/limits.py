"""What limited each trial as far as the probe knows: one table."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.report import numbers
from pgdyno.report.blocks import printable
from pgdyno.report.numbers import NOTHING
from pgdyno.store.limits import SeenBeside
from pgdyno.units import format_bytes

FULL = 0.9
"""Share of CPU or of a disk's time from which on it is the limit."""
MUCH_STEAL = 0.05
MOST_WAITS = 0.5
"""Share of the active sessions that one wait must have to be the limit."""
MOST_ROWS = 24
HEADINGS = ("trial", "CPU", "steal", "active", "WAL/s", "disk", "top wait", "limit")
_NAME, _WAIT = 26, 24


def limit_of(seen: SeenBeside) -> str:
    """In a word what limited a trial; a dash where nothing stands out."""
    if seen.steal is not None and seen.steal >= MUCH_STEAL:
        return "steal"
    if seen.cpu is not None and seen.cpu >= FULL:
        return "CPU"
    if seen.disk_utilisation is not None and seen.disk_utilisation >= FULL:
        return "disk"
    if seen.top_wait and seen.active and (seen.top_sessions or 0.0) >= MOST_WAITS * seen.active:
        return printable(seen.top_wait.partition(":")[0])
    return NOTHING


def limit_lines(trials: Sequence[SeenBeside]) -> list[str]:
    """The table, a line a trial; nothing without a probe."""
    if not trials:
        return []
    rows = [HEADINGS, *(_row(seen) for seen in trials[:MOST_ROWS])]
    widths = [max(len(row[at]) for row in rows) for at in range(len(HEADINGS))]
    lines = ["as the probe saw the server while it was measured:", *(_line(row, widths) for row in rows)]
    more = len(trials) - MOST_ROWS
    return [*lines, f"and {numbers.count(more, 'more trial')}"] if more > 0 else lines


def _row(seen: SeenBeside) -> tuple[str, ...]:
    wait = NOTHING
    if seen.top_wait is not None and seen.top_sessions:
        wait = f"{_cut(printable(seen.top_wait), _WAIT)} {numbers.rounded(seen.top_sessions, 2)}"
    wal = NOTHING if seen.wal_bytes_per_s is None else format_bytes(round(seen.wal_bytes_per_s))
    return (
        _cut(printable(seen.slug), _NAME),
        _percent(seen.cpu),
        _percent(seen.steal),
        NOTHING if seen.active is None else numbers.rounded(seen.active, 2),
        wal,
        _percent(seen.disk_utilisation),
        wait,
        limit_of(seen),
    )


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    # names at the left, figures at the right
    names = {"trial", "top wait", "limit"}
    cells = [
        cell.ljust(width) if heading in names else cell.rjust(width)
        for heading, cell, width in zip(HEADINGS, row, widths, strict=True)
    ]
    return "  ".join(cells).rstrip()


def _percent(share: float | None) -> str:
    return NOTHING if share is None else f"{share * 100:.0f} %"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
