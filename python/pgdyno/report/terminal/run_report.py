"""A run in a terminal: the plan's question, table of points, curve, caveats, the answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.text import Text

from pgdyno.analyse.price import prices_of
from pgdyno.analyse.series import heading
from pgdyno.records.rate_unit import counts_queries
from pgdyno.report import numbers
from pgdyno.report import sentences as words
from pgdyno.report.answers.answer import Answer, answer
from pgdyno.report.answers.endurance import endurance_lines
from pgdyno.report.answers.noise import noise_grade, noise_line
from pgdyno.report.answers.rates import has_rates
from pgdyno.report.answers.tpch_figures import MOST_COLUMNS, query_tables
from pgdyno.report.costs import price_lines, priced_curves, rent_lines
from pgdyno.report.report_content import NO_EXTRAS, Digest, Extras, Note, notes
from pgdyno.report.report_tables import PointRow, Table, point_rows, sentences, text_lines, tpcc_table
from pgdyno.report.run_notes import disturbance_lines, finding_lines, preparation_line, replica_lines
from pgdyno.report.sections.function_shares import function_tables, profile_lines
from pgdyno.report.sections.likeness import MOST_COMPARED, load_lines, own_loads, short_table, waits_table
from pgdyno.report.sections.statement_tables import plan_tables
from pgdyno.report.terminal.published import published_lines
from pgdyno.report.terminal.scaling_chart import scaling_lines
from pgdyno.report.terminal.summary_file import Layout, print_lines
from pgdyno.report.terminal.text_drawing import bar, cut, printable, set_cell, sparkline
from pgdyno.report.translation import current_language, gettext, sentence, use_language
from pgdyno.units import counted

ACCENT = "cyan"
AMBER = "yellow"
RED = "red"
NARROWEST_BAR, WIDEST_BAR = 6, 24
SPARKLINE = 16
NAME, SHORTEST_NAME = 24, 8
GAP = 2
RANK_UNDER_BARS = 7
"""Columns of this rank or higher give way to the bars."""
UNLIMITED = 10_000
"""Width of a file or a pipe, in which nothing is left out."""
FAILURES_SHOWN = 5
WIDTH_OF_QUERIES = 80
"""Columns for the times of the queries of tpch at one point; a table of a terminal of 160 has two points."""
CLASSES, WIDEST_LOAD = 10, 120
"""Classes of statements of a load from a capture, and the columns of their table."""


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of the table: heading over cells. Columns of a lower `rank` are kept longer if room is short."""

    heading: str
    unit: str
    cells: Sequence[str]
    rank: int
    style: str = ""
    left: bool = False

    @property
    def width(self) -> int:
        return max(map(cell_len, (self.heading, self.unit, *self.cells)))


def print_report(of: Digest, console: Console, extras: Extras, last: Sequence[str] = ()) -> None:
    """Write `of` to `console`; without charts and colours if that is not a terminal, or not Unicode.

    `last` are lines of the command that precede the final answer.
    """
    print_lines(all_lines(of, Layout.of(console), extras, last), console)


def all_lines(of: Digest, layout: Layout, extras: Extras, last: Sequence[str] = ()) -> list[Text]:
    """Return the report, `last`, the noise grade and the answer."""
    with use_language(current_language(), queries=counts_queries(of.run.trials)):
        body = report_lines(of, layout.width, unicode=layout.unicode, extras=extras)
        said = answer(of, extras)
    noise = noise_line(noise_grade(of, said.chief)) if any(each.finished for each in of.points) else ""
    lines = [*(Text(each) for each in ("", *last) if last), *noise_lines(noise, layout.width)]
    return [*body, *lines, *answer_lines(said, layout.width)]


def noise_lines(noise: str, width: int | None) -> list[Text]:
    """Return the noise grade after an empty line; nothing without a point."""
    return [Text(""), *(Text(line) for line in _wrapped(noise, width or UNLIMITED, indent=4))] if noise else []


def answer_lines(of: Answer, width: int | None) -> list[Text]:
    """Return the answer after an empty line, in lines of at most `width` columns; None means unlimited."""
    room = width or UNLIMITED
    lines = [Text("")]
    if of.table is not None:
        lines += [*_table_lines(of.table, room), Text("")]
    if of.invalid:
        more = f"; {gettext('and {count} more', count=len(of.invalid) - 1)}" if len(of.invalid) > 1 else ""
        lines += [
            Text(line, f"bold {RED}") for line in _wrapped(f"{gettext('Not valid:')} {of.invalid[0]}{more}", room)
        ]
    lines += [Text(line, "strike" if of.invalid else "bold") for line in _wrapped(of.text, room)]
    return [*lines, *(Text(line) for each in of.details for line in _wrapped(sentence(each), room))]


def report_lines(of: Digest, width: int | None, *, unicode: bool = True, extras: Extras = NO_EXTRAS) -> list[Text]:
    """Return the report except its answer, in lines of at most `width` columns; None: unlimited, and no charts."""
    pictures = width is not None and unicode
    room = width or UNLIMITED
    lines = [Text(line, "bold") for line in _wrapped(words.question(of.manifest), room)]
    lines += [Text(line, "dim") for line in _wrapped(words.conditions(of), room)]
    lines += _own_load(of, extras, room)
    lines += _figures(of, room, pictures=pictures)
    orders = tpcc_table(of)
    if orders is not None:
        lines += [Text(""), *_table_lines(orders, room, AMBER)]
    if pictures and not has_rates(of):
        chart = scaling_lines(of.curves, of.named, room)
        if chart:
            lines += [Text(""), *(Text(line, "bold") for line in _wrapped(words.scaling_title(of, extras), room))]
            lines += [Text(line, ACCENT) for line in chart]
    for block in (
        disturbance_lines(of.run.trials),
        replica_lines(of.run.trials),
        published_lines(of),
        endurance_lines(of, extras),
    ):
        if block:
            lines += [Text(""), *(Text(line) for each in block for line in _wrapped(each, room, indent=4))]
    lines += _prices(of, room)
    for each in plan_tables(extras.plan_changes):
        lines += [Text(""), *_table_lines(each, room)]
    lines += _profiles(extras, room)
    prepared = preparation_line(of.run.trials)
    if prepared:
        lines += [Text(""), *(Text(line, "dim") for line in _wrapped(prepared, room))]
    for style, text in finding_lines(extras.findings or ()):
        lines += [Text(line, style) for line in _wrapped(text, room, indent=4)]
    lines += _notes(notes(of), room)
    lines += _failures(of, room)
    return lines


def _figures(of: Digest, room: int, *, pictures: bool) -> list[Text]:
    if of.manifest.scale_factor is None:
        return [Text(""), *_table(of, room, pictures=pictures)] if of.points else []
    return [
        line
        for table in query_tables(of, min(max(room // WIDTH_OF_QUERIES, 1), MOST_COLUMNS))
        for line in (Text(""), *_table_lines(table, room))
    ]


def _own_load(of: Digest, extras: Extras, room: int) -> list[Text]:
    loads = own_loads(of)
    if not loads:
        return []
    lines = [Text(line) for each in load_lines(of) for line in _wrapped(each, room)]
    lines = [Text(""), *lines, Text(""), *_table_lines(short_table(loads, min(room, WIDEST_LOAD), CLASSES), room)]
    waits = waits_table(loads[:MOST_COMPARED], extras.limits)
    return lines if waits is None else [*lines, Text(""), *_table_lines(waits, room)]


def _table_lines(table: Table, room: int, above: str = "") -> list[Text]:
    lines = [Text(line, "bold") for line in _wrapped(table.caption, room)]
    whole = [printable(line) for line in text_lines(table)]
    fits = max(cell_len(line) for line in whole) <= room
    for line in whole if fits else sentences(table):
        style = above if "ABOVE" in line else ""
        lines += [Text(line, style)] if fits else [Text(part, style) for part in _wrapped(line, room, indent=4)]
    return lines


def _prices(of: Digest, room: int) -> list[Text]:
    prices = prices_of(of.manifest)
    told = list(price_lines(priced_curves(of, prices), prices)) if prices is not None else []
    told += rent_lines(of.manifest, of.run.trials)
    if not told:
        return []
    return [Text(""), *(Text(line) for each in told for line in _wrapped(each, room, indent=4))]


def _profiles(extras: Extras, room: int) -> list[Text]:
    told = [Text(line) for each in profile_lines(extras.profiles) for line in _wrapped(each, room, indent=4)]
    tables = [[Text(""), *_table_lines(each, room)] for each in function_tables(extras.profiles)]
    return [Text(""), *told, *chain.from_iterable(tables)] if told else []


def _table(of: Digest, room: int, *, pictures: bool) -> list[Text]:
    rows = point_rows(of)
    columns = _fitting(_columns(of, rows, pictures=pictures), room, pictures=pictures)
    used = _width(columns)
    if pictures and room - used - GAP >= NARROWEST_BAR:
        tps = next(at for at, column in enumerate(columns) if column.heading == "tps")
        after = tps + (2 if len(columns) > tps + 1 and columns[tps + 1].heading == "±" else 1)
        columns.insert(after, _bars(of, min(room - used - GAP, WIDEST_BAR)))
    lines = [_line([(column.heading, column) for column in columns], "dim")]
    if any(column.unit for column in columns):
        lines.append(_line([(column.unit, column) for column in columns], "dim"))
    for at, row in enumerate(rows):
        line = _line([(column.cells[at], column) for column in columns])
        line.stylize(AMBER if row.point.losses.errors else "")
        line.stylize(RED if not row.point.finished else "")
        lines.append(line)
    return lines


def _columns(of: Digest, rows: Sequence[PointRow], *, pictures: bool) -> list[_Column]:
    columns = [
        _Column(heading(name), "", [printable(row.names[at]) for row in rows], 0, left=True)
        for at, name in enumerate(of.parameters)
    ]
    columns += [_Column("clients", "", [row.clients for row in rows], 0)]
    if any(row.mark for row in rows):
        columns.append(_Column("", "", [row.mark for row in rows], 4, ACCENT, left=True))
    columns += [
        _Column("tps", "", [row.tps for row in rows], 0, "bold"),
        _Column("±", "", [row.half for row in rows], 3),
        _Column("mean", "ms", [row.mean for row in rows], 7),
        _Column("p50", "ms", [row.p50 for row in rows], 5),
        _Column("p95", "ms", [row.p95 for row in rows], 6),
        _Column("p99", "ms", [row.p99 for row in rows], 1),
        _Column("max", "ms", [row.max for row in rows], 6),
        _Column("errors", "", [row.errors for row in rows], 2),
    ]
    if len({row.trials for row in rows}) > 1:
        columns.append(_Column("trials", "", [row.trials for row in rows], 7))
    if pictures and any(row.point.seconds for row in rows):
        cells = [sparkline(row.point.seconds, SPARKLINE) for row in rows]
        columns.append(_Column("by second", "", cells, 9, ACCENT, left=True))
    return columns


def _fitting(columns: list[_Column], room: int, *, pictures: bool) -> list[_Column]:
    """Return as many of `columns` as fit, leaving out those of the highest rank first; then cut names."""
    kept = columns if room == UNLIMITED else [_narrowed(column, NAME) for column in columns]
    bars = NARROWEST_BAR + GAP if pictures else 0
    while _width(kept) + bars > room and any(column.rank >= RANK_UNDER_BARS for column in kept):
        kept.pop(max(range(len(kept)), key=lambda at: kept[at].rank))
    while _width(kept) > room and any(column.rank for column in kept):
        # among equal ranks, the rightmost column goes first
        kept.pop(max(range(len(kept)), key=lambda at: (kept[at].rank, at)))
    over = _width(kept) - room
    for at, column in enumerate(kept):
        if over > 0 and column.left:
            kept[at] = _narrowed(column, max(column.width - over, SHORTEST_NAME))
            over -= column.width - kept[at].width
    return kept


def _narrowed(column: _Column, width: int) -> _Column:
    return replace(column, cells=[cut(cell, width) for cell in column.cells]) if column.left else column


def _width(columns: Sequence[_Column]) -> int:
    return sum(column.width + GAP for column in columns) - GAP


def _bars(of: Digest, width: int) -> _Column:
    highest = max((point.tps.mean for point in of.points if point.tps is not None), default=0.0)
    cells = [
        bar(point.tps.mean / highest, width) if point.tps is not None and highest > 0 else " " * width
        for point in of.points
    ]
    return _Column("", "", cells, 0, ACCENT, left=True)


def _line(cells: Sequence[tuple[str, _Column]], style: str = "") -> Text:
    line = Text()
    for at, (cell, column) in enumerate(cells):
        padded = set_cell(cell, column.width, right=not column.left)
        line.append(" " * GAP if at else "").append(padded, style or column.style)
    line.rstrip()
    return line


def _notes(all_notes: Sequence[Note], room: int) -> list[Text]:
    lines = []
    for note in all_notes:
        where = f" ({'; '.join(note.points[:4])}{'; …' if len(note.points) > 4 else ''})" if note.points else ""
        lines += [Text(line, AMBER) for line in _wrapped(f"note: {note.message}{where}", room, indent=6)]
    return [Text(""), *lines] if lines else []


def _failures(of: Digest, room: int) -> list[Text]:
    lines: list[Text] = []
    for trial in of.unfinished[:FAILURES_SHOWN]:
        why = trial.failure.message if trial.failure is not None else "no reason was recorded"
        clients = numbers.clients(trial.point.clients)
        text = f"{trial.outcome.value}: trial {trial.number}, {of.trial_name(trial)}, {clients}: {why}"
        lines += [Text(line, RED) for line in _wrapped(text, room, indent=8)]
    if len(of.unfinished) > FAILURES_SHOWN:
        lines.append(Text(f"and {counted(len(of.unfinished) - FAILURES_SHOWN, 'more trial')} that did not finish", RED))
    return [Text(""), *lines] if lines else []


def _wrapped(text: str, room: int, indent: int = 0) -> list[str]:
    lines, line = [], ""
    for word in re.split(" (?!%)", printable(text)):
        rest = word
        while (line and cell_len(line) + 1 + cell_len(rest) > room) or cell_len(rest) > room:
            if line.strip():
                lines.append(line)
                line = " " * indent
            if cell_len(line) + cell_len(rest) > room:
                begin = chop_cells(rest, room - cell_len(line))[0]
                lines.append(line + begin)
                rest, line = rest[len(begin) :], " " * indent
            else:
                break
        line = f"{line} {rest}" if line.strip() else line + rest
    return [*lines, line]
