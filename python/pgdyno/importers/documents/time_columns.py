"""Columns of times: a table with one may show the moments of one run, which are not repeats."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pgdyno.importers.documents.table_cells import figure_of, plain
from pgdyno.importers.parsed import Unread
from pgdyno.messages import Message

_TIME = re.compile(
    r"(?:(?:elapsed|unix|epoch|wall|clock|sample|time|date) ?)*(?:elapsed|epoch|clock|time|timestamp|date ?time|ts|t|"
    r"s|secs?|seconds?|minutes?|interval|zeit|sekunden?|segundos?|tempo|tiempo|время|секунд[аы]?|時間|时间|秒|시간|초)"
    r"(?: ?[(\[]?(?:s|secs?|seconds?|minutes?|utc)[)\]]?)?"
)
_ALIKE = 1.1
"""Times are the lengths of runs if the longest is at most this many times the shortest."""
_LONGEST_RUN = 1e6
"""Seconds; larger numbers are points in time."""
_LONGEST_SHOWN = 40


def names_times(head: str) -> bool:
    return _TIME.fullmatch(plain(head)) is not None


def time_column(heads: Sequence[str], rows: Sequence[Sequence[str]], settings: Sequence[int]) -> int | None:
    """Return the column of times if rows with the same settings have different times; None if rows are runs.

    `settings` are the columns that distinguish runs, such as clients.
    """
    for at, head in enumerate(heads):
        if not names_times(head):
            continue
        times: dict[tuple[str, ...], set[str]] = {}
        for cells in rows:
            if at < len(cells) and cells[at].strip():
                same = tuple(cells[other].strip() for other in settings if other != at and other < len(cells))
                times.setdefault(same, set()).add(cells[at].strip())
        if any(len(each) > 1 and not _are_lengths(each) for each in times.values()):
            return at
    return None


def moments(line: int, head: str) -> Unread:
    """Return what is listed in place of the rows below `head`."""
    why = Message(
        "rows-are-moments",
        "the rows are moments of one run (column '{column}'): import its summary; if they are runs, name it 'repeat'",
        column=head.strip()[:_LONGEST_SHOWN],
    )
    return Unread(line, why)


def _are_lengths(times: set[str]) -> bool:
    figures = [figure_of(time) for time in times]
    try:
        seconds = [float(figure.digits.replace(",", ".")) for figure in figures if figure is not None]
    except ValueError:
        return False
    return len(seconds) == len(times) and max(seconds) <= min(_ALIKE * min(seconds), _LONGEST_RUN)
