"""Pictures of characters, and wrapped text: bars, sparklines, braille curves."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rich.cells import cell_len, chop_cells, set_cell_size

ACCENT, AMBER, RED = "cyan", "yellow", "red"
UNLIMITED = 10_000
"""Width of a file or a pipe, in which nothing is left out."""
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_LEVELS = "▁▂▃▄▅▆▇█"
_BRAILLE = 0x2800
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bit of each dot of a braille cell, by row and column."""


def bar(share: float, width: int) -> str:
    """Draw `share` (0 to 1) of `width` cells, to an eighth of a cell; padded to `width`."""
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + (_EIGHTHS[rest] if rest else "")).ljust(width)


def sparkline(values: Sequence[float], width: int, top: float | None = None) -> str:
    """Draw `values` from zero to `top`, or to the highest, in at most `width` cells, averaging neighbours."""
    if not values or width < 1:
        return ""
    each = math.ceil(len(values) / width)
    steps = [values[at : at + each] for at in range(0, len(values), each)]
    means = [sum(step) / len(step) for step in steps]
    top = max(means) if top is None else top
    if top <= 0:
        return _LEVELS[0] * len(means)
    return "".join(_LEVELS[min(max(math.ceil(mean / top * 8) - 1, 0), 7)] for mean in means)


@dataclass(slots=True)
class Canvas:
    """A grid of characters, `width` x `height` cells, each of 2 x 4 dots. Positions are in cells from the top left."""

    width: int
    height: int
    _dots: dict[tuple[int, int], int] = field(default_factory=dict)
    _marks: dict[tuple[int, int], str] = field(default_factory=dict)

    def line(self, x1: float, y1: float, x2: float, y2: float) -> None:
        """Draw a line of dots between two positions."""
        steps = max(1, round(max(abs(x2 - x1) * 2, abs(y2 - y1) * 4)))
        for at in range(steps + 1):
            self._dot(x1 + (x2 - x1) * at / steps, y1 + (y2 - y1) * at / steps)

    def mark(self, x: float, y: float, character: str) -> None:
        """Draw a character over whatever is at a position."""
        self._marks[self._cell(x, y)] = character

    def write(self, x: int, y: int, text: str) -> bool:
        """Write `text` from a cell on if all its cells are within the grid and empty; otherwise return False."""
        cells = [(x + at, y) for at in range(len(text))]
        around = [(x - 1, y), *cells, (x + len(text), y)]
        inside = 0 <= y < self.height and x >= 0 and x + len(text) <= self.width
        if not inside or any(cell in self._dots or cell in self._marks for cell in around):
            return False
        self._marks |= dict(zip(cells, text, strict=True))
        return True

    def lines(self) -> list[str]:
        return ["".join(self._character(x, y) for x in range(self.width)) for y in range(self.height)]

    def _dot(self, x: float, y: float) -> None:
        cell = self._cell(x, y)
        column = min(int((x - cell[0]) * 2), 1)
        row = min(int((y - cell[1]) * 4), 3)
        self._dots[cell] = self._dots.get(cell, 0) | _DOTS[max(row, 0)][max(column, 0)]

    def _cell(self, x: float, y: float) -> tuple[int, int]:
        return min(max(int(x), 0), self.width - 1), min(max(int(y), 0), self.height - 1)

    def _character(self, x: int, y: int) -> str:
        return self._marks.get((x, y)) or (chr(_BRAILLE | self._dots[x, y]) if (x, y) in self._dots else " ")


def printable(text: str) -> str:
    """Return `text` without characters that could control the terminal: names and messages come from outside."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else " " if each in "\n\t\r" else "\N{REPLACEMENT CHARACTER}" for each in text
    )


_CLOSING = "\u3001\u3002\uff0c\uff0e\u30fb\uff1a\uff1b\uff1f\uff01\uff09\u300d\u300f\u3011\u201d\u2019,.:;?!)]}%"
"""Characters that must not begin a line: full stops, commas, closing brackets and quotes."""
_OPENING = "\uff08\u300c\u300e\u3010\u201c\u2018([{"
"""Characters that must not end a line."""
_BETWEEN = re.compile(r"\s+(?!%)")
_IDEOGRAPH = re.compile(r"[\u2e80-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef]")
"""Chinese and Japanese lines may break at these; Korean has spaces."""


def wrap_text(text: str, width: int, indent: str = "", *, chop: bool = False) -> list[str]:
    """Return `text` in lines of `width`, `indent` before all but the first; `chop` breaks longer words."""
    lines: list[str] = []
    line = ""
    for space, piece in _pieces(text):
        longer = f"{line}{space}{piece}" if line.strip() else line + piece
        if line.strip() and cell_len(longer) > width:
            lines.append(line)
            line = indent + piece
        else:
            line = longer
        while chop and cell_len(line) > width:
            begin = chop_cells(line, width)[0]
            lines.append(begin)
            line = indent + line[len(begin) :]
    return [*lines, line] if line.strip() else lines


def cut(text: str, width: int) -> str:
    """Return `text` in at most `width` columns, with an ellipsis if it is longer."""
    return text if cell_len(text) <= width else set_cell_size(text, width - 1).rstrip() + "…"


def set_cell(text: str, width: int, *, right: bool) -> str:
    """Return `text` padded to `width` columns."""
    space = " " * max(width - cell_len(text), 0)
    return space + text if right else text + space


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    """Return unbreakable pieces, each with the space before it: words, and single ideographs with their punctuation."""
    for at, word in enumerate(words_of(text)):
        space, piece = (" " if at else ""), ""
        for character in word:
            if piece and _may_break(piece[-1], character):
                yield space, piece
                space, piece = "", ""
            piece += character
        yield space, piece


def words_of(text: str) -> list[str]:
    """Return the words of `text`, a percent sign with its number: no line begins with it."""
    return _BETWEEN.split(text.strip()) if text.strip() else []


def _may_break(before: str, after: str) -> bool:
    if after in _CLOSING or before in _OPENING:
        return False
    return bool(_IDEOGRAPH.match(before) or _IDEOGRAPH.match(after))
