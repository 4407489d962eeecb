"""Imports CSV tables with pgdyno's column names: a row per trial."""

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter

from pgdyno.errors import UsageError
from pgdyno.importers.documents.context import ORDINAL
from pgdyno.importers.documents.passwords import without_passwords
from pgdyno.importers.documents.table_cells import Figure, Style, style_of
from pgdyno.importers.documents.text_tables import moments, time_column
from pgdyno.importers.parsed import (
    FIGURES,
    LONGEST_NUMBER,
    LONGEST_SHOWN,
    RATES,
    WHOLE,
    Document,
    Output,
    number,
    unused_line,
    whole_number,
)
from pgdyno.messages import Message
from pgdyno.records.rate_unit import NEW_ORDERS
from pgdyno.records.secret_values import MASK, names_password

_FIELDS = frozenset(FIGURES)
_SAME = {"measured_s": "duration_s", "succeeded": "transactions"}
_PERCENTILES = {
    "p50_ms": 50.0, "p75_ms": 75.0, "p90_ms": 90.0, "p95_ms": 95.0, "p99_ms": 99.0, "p999_ms": 99.9,
    "p9999_ms": 99.99, "latency_p50_ms": 50.0, "latency_p95_ms": 95.0, "latency_p99_ms": 99.0,
}  # fmt: skip
_FIGURES = _FIELDS | {*_SAME, *_PERCENTILES}
_TEXTS = ("target", "workload", "protocol")
_WORDS = {"connections": "rows", "checkpoints": "checkpoints", "server_version": "server_version"}
_PAIRS = ("settings", "variables")
_PREFIXES = ("settings.", "variables.")
_NEEDLESS = (
    "repeat", "trial", "run", "started_at", "ended_at", "scheduled", "in_flight", "clients_aborted", "instance",
    "duet_partner", "duet_tps_ratio", "largest_share_difference", "disagreements", "not_started", "late_p99_ms",
    "power", "throughput", "composite", "scripts", "step", "group", "groups", "events",
    "connect_p50_ms", "connect_p99_ms", "refused", "connect",
)  # fmt: skip
_OUTCOME = ("outcome", "failure")
_COUNTED = "tps_counts"
_SETTINGS = frozenset([
    *_TEXTS, *_WORDS, *_PAIRS, "scale", "warehouses", "clients", "workers", "transactions_per_client", "rate",
    "repeat", "trial", "run",
])  # fmt: skip

LONGEST_HEADER = 65_536


class FieldError(ValueError):
    """A field exceeds the length limit."""


_READ = _FIGURES | {*_TEXTS, *_WORDS}
OURS = _READ | {*_PAIRS, *_NEEDLESS, *_OUTCOME, _COUNTED}
"""Columns that need no mapping; `variables.NAME` and `settings.NAME` are also accepted."""


def _is_ours(column: str) -> bool:
    return column in OURS or column.startswith(_PREFIXES)


def is_table(first_line: str, mapping: Mapping[str, str]) -> bool:
    """Return whether `first_line` is a heading that can be imported: separated cells, one of them a rate."""
    if len(first_line) > LONGEST_HEADER:
        return False
    cells = [mapping.get(cell, cell) for cell in _header(first_line)]
    known = sum(map(_is_ours, cells))
    return len(cells) > 1 and any(cell in RATES for cell in cells) and 2 * known >= len(cells)


def read_table(text: str, mapping: Mapping[str, str]) -> Document:
    """Return every row of `text`; `mapping` gives pgdyno's names of columns with other names.

    Rows with invalid cells, rows that are moments of one run, and unknown columns are unread. Raises UsageError for a
    mapping that names an unknown column on either side, and for several columns with one meaning.
    """
    lines = text.splitlines()
    names = _header(lines[0])
    strange = [theirs for theirs in mapping if theirs not in names]
    if strange:
        raise UsageError(f"--map: the table has no column {', '.join(strange)}", hint=f"it has {', '.join(names)}")
    columns = [mapping.get(name, name) for name in names]
    twice = next((name for name, count in Counter(columns).items() if count > 1 and name in _READ), None)
    if twice is not None:
        both = ", ".join(repr(name) for name, column in zip(names, columns, strict=True) if column == twice)
        raise UsageError(f"several columns of the table are {twice}: {both}", hint="remove or rename all but one")
    rows = list(_number_rows(csv.reader(lines[1:], delimiter=_delimiter(lines[0]))))
    document = Document()
    unknown = ["" if _is_ours(column) else name for name, column in zip(names, columns, strict=True)]
    settings = [at for at, name in enumerate(columns) if _distinguishes(name, at, rows)]
    moment = time_column(unknown, [cells for _, cells in rows], settings)
    if moment is not None:
        return Document(unread=[moments(1, names[moment])])
    for at, name in enumerate(columns):
        if name and not _is_ours(name):
            why = Message("column-unknown", "unknown column '{column}'; map it with --map OURS={column}", column=name)
            document.unread.append(unused_line(1, why))
        elif not name and any(at < len(cells) and cells[at].strip() for _, cells in rows):
            why = Message("column-unnamed", "column {number} has no name, and is not read", number=at + 1)
            document.unread.append(unused_line(1, why))
    read_number = _number_format(columns, [cells for _, cells in rows], _delimiter(lines[0]))
    hidden = {at for at, name in enumerate(columns) if names_password(name)}
    for line, read in rows:
        if not any(cell.strip() for cell in read):
            continue
        # each cell for itself: in the line, a password would seem to go on after a comma
        cells = [MASK if at in hidden and cell else without_passwords(cell) for at, cell in enumerate(read)]
        try:
            document.outputs.append(_row(columns, cells, line, read_number))
        except ValueError as error:
            row = ",".join(cells)[:LONGEST_SHOWN]
            document.unread.append(unused_line(line, Message("row-invalid", "{why}: {row}", why=str(error), row=row)))
    return document


def _number_rows(rows: Iterable[list[str]]) -> Iterator[tuple[int, list[str]]]:
    line_num = attrgetter("line_num")  # csv's reader has no type that can be named
    try:
        for cells in rows:
            yield line_num(rows) + 1, cells
    except csv.Error as error:
        limit = csv.field_size_limit()
        raise FieldError(f"line {line_num(rows) + 1}: a field of more than {limit:,} characters") from error


def mapping_of(pairs: Sequence[str]) -> dict[str, str]:
    """Parse `ours=theirs` pairs as a mapping from theirs to ours. Raises UsageError for an invalid pair."""
    mapping = {}
    for pair in pairs:
        ours, equals, theirs = pair.partition("=")
        if not equals or not theirs or not _is_ours(ours):
            wrong = f"{ours!r} is not a column of pgdyno" if equals else "expected OURS=THEIRS"
            raise UsageError(f"--map {pair}: {wrong}", hint="docs/guides/import.md lists the columns")
        mapping[theirs] = ours
    return mapping


def _delimiter(header: str) -> str:
    return max(",;\t", key=header.count)


def _header(line: str) -> list[str]:
    try:
        cells = next(csv.reader([line.removeprefix("\ufeff")], delimiter=_delimiter(line)), [])
    except csv.Error:
        return []
    return [cell.strip() for cell in cells]


def _distinguishes(name: str, at: int, rows: Sequence[tuple[int, Sequence[str]]]) -> bool:
    if _is_ours(name):
        return name in _SETTINGS or name.startswith(_PREFIXES)
    return any(_is_description(name, cells[at].strip()) for _, cells in rows if at < len(cells))


def _number_format(columns: Sequence[str], rows: Sequence[Sequence[str]], delimiter: str) -> Callable[[str], float]:
    places = [at for at, name in enumerate(columns) if name in _FIGURES]
    figures = [Figure(cells[at].strip(), 1.0, "") for cells in rows for at in places if at < len(cells)]
    style = style_of(figures, delimiter)
    if style == Style():
        return number
    return lambda cell: style.value(Figure(cell, 1.0, "")) if len(cell) <= LONGEST_NUMBER else number(cell)


def _row(columns: Sequence[str], cells: Sequence[str], line: int, read_number: Callable[[str], float]) -> Output:
    if len(cells) != len(columns):
        raise ValueError(f"{len(cells)} cells under {len(columns)} columns")
    output = Output("csv", line, line, group=1)
    for name, cell in zip(columns, (cell.strip() for cell in cells), strict=True):
        if cell:
            _take(output, name, cell, line, read_number)
    if all(getattr(output, rate) is None for rate in RATES):
        raise ValueError("no throughput")
    counted = [cell.strip() for name, cell in zip(columns, cells, strict=True) if name == _COUNTED]
    if NEW_ORDERS in counted and output.tps is not None and output.nopm is None:
        # sources print new orders per minute
        output.put("nopm", output.tps * 60, *output.printed.pop("tps"))
        output.tps = None
    return output


_FIGURE_OR_TIME = re.compile(r"[\d.,:/+-]+(?:[T ][\d.,:/+-]+)?\s?(?:%|[A-Za-z]{1,3})?")


def _is_description(name: str, cell: str) -> bool:
    return "version" in name.lower() or not (_FIGURE_OR_TIME.fullmatch(cell) or ORDINAL.fullmatch(cell))


def _take(output: Output, name: str, cell: str, line: int, read_number: Callable[[str], float]) -> None:
    field = _SAME.get(name, name)
    shown = f"{name} = {cell}"
    if name in _PERCENTILES:
        output.put_percentile(_PERCENTILES[name], read_number(cell), line, shown)
    elif field in _FIELDS:
        value = read_number(cell)
        output.put(field, whole_number(cell, value) if field in WHOLE else value, line, shown)
    elif name in _TEXTS:
        setattr(output, name, cell.removeprefix("'"))
    elif name in _WORDS:
        output.words[_WORDS[name]] = cell
    elif name in _PAIRS:
        pairs = (pair.partition("=") for pair in cell.split(";"))
        getattr(output, name).update({key.strip(): value.strip() for key, _, value in pairs})
    elif name == "outcome" and cell != "finished":
        raise ValueError(f"the trial {cell}")
    elif not _is_ours(name) and _is_description(name, cell):
        # rows that differ in it are no repeats
        output.shown[name] = cell[:LONGEST_SHOWN]
    elif name.startswith(_PREFIXES):
        group, _, key = name.partition(".")
        getattr(output, group)[key] = cell
