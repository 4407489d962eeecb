"""Active sessions over time, stacked by class: a column per step, with a resolution of an eighth of a cell."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from rich.text import Text

from pgdyno.records.probe import wait_class
from pgdyno.report import numbers

STYLES = {
    "CPU": "green", "IO": "blue", "WAL": "yellow", "Lock": "red", "LWLock": "magenta", "Client": "bright_black",
    "other": "cyan",
}  # fmt: skip
"""The terminal's own colours, which suit dark and light backgrounds, in the order from the bottom to the top."""
LETTERS = {"CPU": "C", "IO": "I", "WAL": "W", "Lock": "L", "LWLock": "M", "Client": "N", "other": "o"}
_EIGHTHS = " ▁▂▃▄▅▆▇█"
_STEPS = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)


def class_of(kind: str, event: str) -> str:
    """Return the class of a wait. Programs that read `watch --json` know I/O by PostgreSQL's own word, `IO`."""
    found = wait_class(kind, event)
    return "IO" if found == "I/O" else found


def style_of(wait: str) -> str:
    """Return the colour of a wait by its name, `type:event`."""
    kind, _, event = wait.partition(":")
    return STYLES[class_of(kind, event)]


def nice_top(highest: float) -> float:
    """Return the round figure at or above `highest` at which an axis ends, at least 1."""
    size = 10.0 ** math.floor(math.log10(max(highest, 1.0)))
    return next(step * size for step in _STEPS if step * size >= max(highest, 1.0) - 1e-9)


def stacked(
    columns: Sequence[Mapping[str, float]], width: int, height: int, limit: float | None, *, colours: bool = True
) -> list[Text]:
    """Return the chart in `height` lines of `width` cells with its axis, the last column at the right.

    `columns` are sessions by class, among other figures; `limit` is the number of processors, drawn as a line if it is
    within the axis. Without `colours`, a cell has the letter of the class at its middle.
    """
    columns = [{name: column[name] for name in STYLES if name in column} for column in columns]
    highest = max((sum(column.values()) for column in columns), default=0.0)
    if limit is not None and limit > 2.5 * max(highest, 1.0):
        limit = None
    top = nice_top(max(highest, limit or 0.0))
    labels = {height - 1: numbers.axis(top)}
    line = None
    if limit is not None:
        line = min(max(math.ceil(limit / top * height - 1e-9) - 1, 0), height - 1)
        labels[line] = f"{numbers.axis(limit)} CPU"
    room = max(map(len, labels.values()))
    cells = max(width - room - 2, 1)
    shown = [*([{}] * cells), *columns][-cells:]
    lines = []
    for row in reversed(range(height)):
        axis = "|" if not colours else "┤" if row in labels else "│"
        text = Text(no_wrap=True).append(f"{labels.get(row, ''):>{room}} {axis}", "dim" if colours else "")
        for column in shown:
            text.append(*_cell(column, row, top / height, is_line=row == line, colours=colours))
        lines.append(text)
    return lines


def _cell(column: Mapping[str, float], row: int, unit: float, *, is_line: bool, colours: bool) -> tuple[str, str]:
    """Return the character of a cell, and its style."""
    floor = row * unit
    eighths = min(max(round((sum(column.values()) - floor) / unit * 8), 0), 8)
    middle = _class_at(column, floor + unit * eighths / 16)
    if not colours:
        return LETTERS[middle] if eighths >= 4 else "-" if is_line else " ", ""
    if is_line:
        # the line is drawn over the bars, which keep their colour
        return "╌", f"default on {STYLES[middle]}" if eighths >= 4 else ""
    if eighths < 8:
        return _EIGHTHS[eighths], STYLES[middle]
    lower, upper = _class_at(column, floor + unit / 16), _class_at(column, floor + unit * 15 / 16)
    if lower == upper:
        return "█", STYLES[lower]
    names = list(STYLES)
    edge = sum(column.get(name, 0.0) for name in names[: names.index(lower) + 1])
    return _EIGHTHS[min(max(round((edge - floor) / unit * 8), 0), 8)], f"{STYLES[lower]} on {STYLES[upper]}"


def _class_at(column: Mapping[str, float], level: float) -> str:
    for name in STYLES:
        level -= column.get(name, 0.0)
        if level < 0:
            return name
    return "other"
