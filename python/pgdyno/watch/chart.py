"""Active sessions over time, stacked by class: a column per step, with a resolution of an eighth of a cell."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.text import Text

from pgdyno.records.wait_classes import wait_class
from pgdyno.report import numbers


@dataclass(frozen=True, slots=True)
class WaitClass:
    """A class of waits. `style` is one of the terminal's own colours, which suit dark and light backgrounds."""

    name: str
    style: str
    letter: str
    """The symbol without colours."""


CLASSES = (
    WaitClass("CPU", "green", "C"),
    WaitClass("IO", "blue", "I"),
    WaitClass("WAL", "yellow", "W"),
    WaitClass("Lock", "red", "L"),
    WaitClass("LWLock", "magenta", "M"),
    WaitClass("Client", "bright_black", "N"),
    WaitClass("other", "cyan", "o"),
)
"""In the order from the bottom of the chart to the top."""
BY_NAME = {each.name: each for each in CLASSES}


def class_of(kind: str, event: str) -> str:
    """Return the class of a wait. Programs that read `watch --json` know I/O by PostgreSQL's own word, `IO`."""
    found = wait_class(kind, event)
    return "IO" if found == "I/O" else found


def style_of(wait: str) -> str:
    """Return the colour of a wait by its name, `type:event`."""
    kind, _, event = wait.partition(":")
    return BY_NAME[class_of(kind, event)].style


_EIGHTHS = " ▁▂▃▄▅▆▇█"
_STEPS = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)
Column = Mapping[str, float] | None
"""Sessions by class; None without a sample."""


def nice_top(highest: float) -> float:
    """Return the round figure at or above `highest` at which an axis ends, at least 1."""
    size = 10.0 ** math.floor(math.log10(max(highest, 1.0)))
    return next(step * size for step in _STEPS if step * size >= max(highest, 1.0) - 1e-9)


def stacked(
    columns: Sequence[Column], width: int, height: int, limit: float | None, *, colours: bool = True
) -> list[Text]:
    """Return the chart in `height` lines of `width` cells with its axis, the last column at the right.

    `limit` is the number of processors, drawn as a line if it is within the axis. Without `colours`, a cell has the
    letter of the class that fills most of it.
    """
    highest = max((sum(column.values()) for column in columns if column), default=0.0)
    is_near = limit is not None and limit <= 2.5 * max(highest, 1.0)
    top = nice_top(max(highest, limit if is_near and limit else 0.0))
    labels = _labels(top, height, limit if is_near else None)
    room = max(len(label) for label in labels.values()) + 1
    shown = [*([None] * max(width - room - 1, 0)), *columns][-max(width - room - 1, 1) :]
    line = _row_of(limit, top, height) if is_near and limit else None
    lines = []
    for row in reversed(range(height)):
        axis = "|" if not colours else "┤" if row in labels else "│"
        text = Text(no_wrap=True).append(f"{labels.get(row, ''):>{room - 1}} {axis}", "dim" if colours else "")
        for column in shown:
            _cell(text, column, row, top / height, is_line=row == line, colours=colours)
        lines.append(text)
    return lines


def _labels(top: float, height: int, limit: float | None) -> dict[int, str]:
    labels = {height - 1: numbers.axis(top)}
    if height >= 6:
        labels[height // 2 - 1] = numbers.axis(top * (height // 2) / height)
    if limit is not None:
        row = _row_of(limit, top, height)
        for near in (row - 1, row + 1):
            if near != height - 1:
                labels.pop(near, None)
        labels[row] = f"{numbers.axis(limit)} CPU"
    return labels


def _row_of(level: float, top: float, height: int) -> int:
    return min(max(math.ceil(level / top * height - 1e-9) - 1, 0), height - 1)


def _cell(text: Text, column: Column, row: int, unit: float, *, is_line: bool, colours: bool) -> None:
    parts = _parts(column or {}, row * unit, unit)
    filled = sum(share for _, share in parts)
    most = max(parts, key=lambda part: part[1], default=None)
    if not colours:
        letter = most[0].letter if most is not None and filled >= 0.5 else "-" if is_line else " "
        text.append(letter)
    elif is_line:
        # the line is drawn over the bars, which keep their colour
        text.append("╌", f"default on {most[0].style}" if most is not None and filled >= 0.5 else "")
    elif most is None or round(filled * 8) == 0:
        text.append(" ")
    elif round(filled * 8) == 8:
        lower = round(parts[0][1] * 8)
        if lower >= 8 or len(parts) == 1:
            text.append("█", parts[0][0].style)
        else:
            upper = max(parts[1:], key=lambda part: part[1])[0]
            if lower == 0:
                text.append("█", upper.style)
            else:
                text.append(_EIGHTHS[lower], f"{parts[0][0].style} on {upper.style}")
    else:
        text.append(_EIGHTHS[round(filled * 8)], most[0].style)


def _parts(column: Mapping[str, float], floor: float, unit: float) -> list[tuple[WaitClass, float]]:
    """Return the share of each class in the cell that begins at `floor`, from the bottom up."""
    parts, level = [], 0.0
    for each in CLASSES:
        begin, level = level, level + column.get(each.name, 0.0)
        inside = min(level, floor + unit) - max(begin, floor)
        if inside > 1e-9:
            parts.append((each, inside / unit))
    return parts


def legend(active: Mapping[str, float] | None, *, colours: bool = True) -> list[Text]:
    """Return the meaning of each colour, with its sessions, most first; empty classes are left out."""
    keys = []
    for name, sessions in sorted((active or {}).items(), key=lambda item: -item[1]):
        each = BY_NAME[name]
        key = Text("■ " if colours else f"{each.letter} ", each.style if colours else "")
        keys.append(key.append(f"{name} {numbers.rounded(sessions, 2)}", "default"))
    return keys
