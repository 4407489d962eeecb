"""Converts tables of figures to trials: one per row, or one per cell if columns are the compared targets."""

import re
import statistics
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass

from pgdyno.importers.documents.context import ORDINAL, is_warmup
from pgdyno.importers.documents.table_cells import (
    MODES,
    NO_FIGURES,
    TARGET,
    WORKLOADS,
    Column,
    Figure,
    Style,
    columns_of,
    figure_of,
    plain_head,
    style_of,
    without_factor,
)
from pgdyno.importers.documents.text_tables import LONGEST_ROW, Grid, moments, names_times, time_column, transpose
from pgdyno.importers.parsed import RATES, WHOLE, Document, Output, looks_like_figure, unused_line
from pgdyno.messages import Message
from pgdyno.records import UnusedLine

_SETTINGS = ("clients", "clients/workers", "workers", "scale", "warehouses")
_ROW_NUMBERS = ("#", "n", "no", "no.", "№")
_PROTOCOLS = ("simple", "extended", "prepared")
_LITTLE = (0.0005, 0.002)
"""Clients per second over throughput: about 1/1000 if the dot of a throughput separated thousands."""
_PLAUSIBLE_RATE = 50.0
"""Without a unit, larger figures below counts of clients are transactions per second; smaller ones may be ms."""
_CLIENTS = re.compile(
    r"(?<!\w)(?:clients?|connections?|threads?|users|vus?|接続数|クライアント数|클라이언트|连接数)(?!\w)"
)
_SHARE = re.compile(r"\d[\d.,]{0,20}\s?(?:%|x\b|×)")  # noqa: RUF001
LONGEST_WORD = 100
"""Characters of a cell that are kept as they are."""
ASSUMED = "not printed: taken as transactions a second"


def trials_of_grid(grid: Grid, caption: str, units: frozenset[str]) -> Document:
    """Return trials and unread rows of `grid`; `caption` is the text above it, which may name the unit, and `units` are
    those that the document names anywhere.

    Both are empty if it is not a table of figures.
    """
    columns = _with_rates_in_cells(grid, columns_of(grid.head))
    if columns[0].field in RATES and all(column.field == "label" and figure_of(column.head) for column in columns[1:]):
        # the unit may be in the column of row names: `TPS | 8 clients | 16 clients`
        return _read_wide(grid, columns, f"{grid.head[0]}", units) or Document()
    if any(column.field in RATES for column in columns):
        return _read_rows(grid, columns)
    turned = transpose(grid)
    if turned is not None:
        if names_times(grid.head[0]):
            turned.head[0] = grid.head[0]
        return _read_rows(turned, columns_of(turned.head))
    found = _read_wide(grid, columns, caption, units)
    if found is not None:
        return found
    unread = [at for at, column in enumerate(columns) if column.field == "derived"]
    if units_in(caption) or "latency" in caption.lower():
        # what the text above says of a table whose columns pgdyno does not know
        unread = list(range(1, len(columns)))
    if any(column.field == "clients" for column in columns):
        unread += [at for at, column in enumerate(columns) if column.is_latency and column.has_unit]
    return Document(unread=[_unread(line, text) for line, cells, text in grid.rows if _has_figure(cells, unread)])


def _with_rates_in_cells(grid: Grid, columns: list[Column]) -> list[Column]:
    # `Results | tps = 1530.6 | tps = 351.8`: the cells say what the heading does not
    for at, column in enumerate(columns):
        cells = [cells[at] for _, cells, _ in grid.rows if at < len(cells) and cells[at].strip()]
        units = {figure.unit if (figure := figure_of(cell)) else "" for cell in cells}
        if len(units) == 1 and units < frozenset(RATES) and column.field == "label":
            columns[at] = Column(units.pop(), column.head)
    return columns


# ---- a trial per row ----


def _read_rows(grid: Grid, columns: Sequence[Column]) -> Document:
    found = Document()
    rates = [at for at, column in enumerate(columns) if column.field in RATES]
    # what distinguishes rows: labels before the rate, and those whose heading names a target
    labels = [
        at for at, column in enumerate(columns)
        if column.field == "label" and (at < rates[0] or (plain_head(column.head) in TARGET and column.head.strip()))
    ]  # fmt: skip
    unnamed = [at for at, column in enumerate(columns) if column.field == "label" and at not in labels]
    texts = [at for at in labels if any(at < len(cells) and figure_of(cells[at]) is None for _, cells, _ in grid.rows)]
    settings = [
        at for at, column in enumerate(columns)
        if column.field in _SETTINGS or (column.field == "ordinal" and plain_head(column.head) not in _ROW_NUMBERS)
    ]  # fmt: skip
    moment = time_column(grid.head, [cells for _, cells, _ in grid.rows], [*texts, *settings])
    if moment is not None:
        return Document(unread=[moments(grid.line, grid.head[moment])])
    styles, notes = _styles(grid, columns, unnamed), _distinct_notes(grid, columns)
    measured = [at for at, column in enumerate(columns) if column.is_measured]
    carried: dict[int, str] = {}
    for line, cells, text in grid.rows:
        row = _Row(line, text, cells, columns, styles)
        for at in labels:
            value = _text(cells[at]) if at < len(cells) else ""
            carried[at] = value or (carried.get(at, "") if at == 0 else "")
        outputs = row.outputs(rates)
        if outputs:
            found.unread += row.unread_lines(measured, unnamed, outputs)
        elif _has_digit([_SHARE.sub("", cell) for cell in cells], measured):
            found.unread.append(_unread(line, text))
        for output in outputs:
            _label(output, columns, labels, carried)
            output.variables |= {"note": notes[line]} if line in notes else {}
            output.group = grid.line
        found.outputs += outputs
    return found


def _distinct_notes(grid: Grid, columns: Sequence[Column]) -> dict[int, str]:
    at = _column_at(columns, "clients")
    notes: dict[str, dict[int, str]] = {}
    for line, cells, _ in grid.rows:
        figure = figure_of(cells[at]) if at < len(cells) else None
        if figure is not None:
            notes.setdefault(figure.digits, {})[line] = figure.note
    distinct = [alike for alike in notes.values() if len(set(alike.values())) > 1]
    return {line: note for alike in distinct for line, note in alike.items() if note}


def _styles(grid: Grid, columns: Sequence[Column], unnamed: Sequence[int]) -> dict[int, Style]:
    # figures in columns that pgdyno does not know show the format of the table, too
    of_figures = [at for at, column in enumerate(columns) if column.field not in (*NO_FIGURES, "clients/workers")]
    by_column = {
        at: [figure for _, cells, _ in grid.rows if at < len(cells) and (figure := figure_of(cells[at]))]
        for at in (*of_figures, *unnamed)
    }
    whole = style_of([figure for each in by_column.values() for figure in each], grid.separator)
    styles = {}
    for at, figures in by_column.items():
        own = style_of(figures)
        styles[at] = own if own.decimal != "." else whole
        if columns[at].field in RATES and styles[at].decimal == "." and _is_dotted(grid, columns, at, figures):
            styles[at] = Style(",")
    return styles


def _is_dotted(grid: Grid, columns: Sequence[Column], rate: int, figures: Sequence[Figure]) -> bool:
    """Return whether `1.436` is more than a thousand: clients and latency indicate it, and all figures look so."""
    if not any(re.fullmatch(r"\d{1,3}\.\d{3}", each.digits) for each in figures) or not all(
        re.fullmatch(r"\d{1,3}(?:\.\d{3})+|\d{1,3}", each.digits) for each in figures
    ):
        return False
    places = [rate, *(_column_at(columns, name) for name in ("clients", "latency_mean_ms"))]
    ratios = []
    for _, cells, _ in grid.rows:
        shown = [figure_of(cells[at]) for at in places if at < len(cells)]
        with suppress(ValueError, ZeroDivisionError):
            tps, count, ms = (Style().value(each) for each in shown if each is not None)
            ratios.append(tps * ms * columns[places[2]].factor / 1000 / count)
    return bool(ratios) and _LITTLE[0] < statistics.median(ratios) < _LITTLE[1]


def _column_at(columns: Sequence[Column], name: str) -> int:
    return next((at for at, column in enumerate(columns) if column.field == name), LONGEST_ROW)


def _label(output: Output, columns: Sequence[Column], labels: Sequence[int], values: dict[int, str]) -> None:
    names: list[str] = []
    has_clients = any(column.field in ("clients", "clients/workers") or column.clients for column in columns)
    for at in labels:
        value, head = values.get(at, ""), plain_head(columns[at].head)
        if is_warmup(value):
            output.warmup = value
        elif not value or ORDINAL.fullmatch(value):
            # a repeat, not a target
            continue
        elif head in MODES and value.lower() in _PROTOCOLS:
            output.protocol = value.lower()
        elif head in WORKLOADS and (has_clients or len(labels) > 1):
            output.workload = value
        elif head in TARGET or (not has_clients and at == labels[0]):
            names.append(value)
        else:
            output.variables[head] = value
    output.target = ", ".join([*names, *filter(None, [output.target])]) or None


@dataclass(slots=True)
class _Row:
    line: int
    text: str
    cells: Sequence[str]
    columns: Sequence[Column]
    styles: dict[int, Style]

    def outputs(self, rates: Sequence[int]) -> list[Output]:
        found: dict[tuple[str | None, int], Output] = {}
        seen: Counter[tuple[str | None, str]] = Counter()
        for at in rates:
            value, column = self._value(at), self.columns[at]
            if value is None:
                continue
            repeat = 0 if column.connecting is not None else seen[column.target, column.field]
            output = found.setdefault(
                (column.target, repeat), Output("table", self.line, self.line, target=column.target)
            )
            if column.connecting is not None:
                output.put(f"tps_{column.connecting}_connections", value, self.line, self.text)
                if output.tps is not None and column.connecting == "including":
                    continue
            else:
                seen[column.target, column.field] += 1
            output.put(column.field, value, self.line, self.text)
            if column.clients is not None:
                output.put("clients", column.clients, self.line, column.head)
        targets = {output.target for output in found.values()}
        for output in found.values():
            for at, column in enumerate(self.columns[: len(self.cells)]):
                if not column.is_rate and _belongs_to(column, output.target, targets):
                    self._put(output, column, at)
        return list(found.values())

    def _put(self, output: Output, column: Column, at: int) -> None:
        text, value = _text(self.cells[at]), None if column.field in NO_FIGURES else self._value(at)
        pair = re.match(r"(\d{1,6})\s?/\s?(\d{1,6})", text) if column.field == "clients/workers" else None
        name: str | None = column.field
        if pair is not None:
            output.put("clients", int(pair[1]), self.line, self.text)
            output.put("workers", int(pair[2]), self.line, self.text)
        elif name == "result" and text:
            output.words[plain_head(column.head)] = text[:LONGEST_WORD]
        elif value is None or column.field == "clients/workers":
            return
        elif re.fullmatch(r"p[\d.]+", column.field):
            if (percent := float(column.field[1:])) not in output.percentiles_ms:
                output.put_percentile(percent, value, self.line, self.text)
        else:
            if name == "clients" and output.clients is not None:
                # a second count after that of clients is that of the generator's threads
                name = "workers" if "thread" in plain_head(column.head) else None
            if name is not None and getattr(output, name) is None and (name not in WHOLE or value == int(value)):
                output.put(name, int(value) if name in WHOLE else value, self.line, self.text)

    def _value(self, at: int) -> float | None:
        figure = figure_of(self.cells[at]) if at < len(self.cells) else None
        with suppress(ValueError):
            return None if figure is None else self.columns[at].value(figure, self.styles.get(at, Style()))
        return None

    def unread_lines(
        self, places: Sequence[int], unnamed: Sequence[int], outputs: Sequence[Output]
    ) -> list[UnusedLine]:
        targets = {output.target for output in outputs}
        left = [at for at in places if _has_digit(self.cells, [at]) and not self._is_read(at, targets)]
        left += [at for at in unnamed if at < len(self.cells) and looks_like_figure(self.cells[at])]
        return [
            unused_line(
                self.line,
                Message(
                    "cell-unread",
                    "figure under '{column}' not understood: {cell}",
                    column=self.columns[at].head,
                    cell=self.cells[at].strip()[:100],
                ),
            )
            for at in left
        ]

    def _is_read(self, at: int, targets: Collection[str | None]) -> bool:
        value, column = self._value(at), self.columns[at]
        is_fraction = column.field in WHOLE and value is not None and value != int(value)
        is_of_any = any(_belongs_to(column, target, targets) for target in targets)
        return value is not None and not is_fraction and is_of_any


def _belongs_to(column: Column, target: str | None, targets: Collection[str | None]) -> bool:
    if column.target is None and column.is_measured and not column.is_rate and len(targets) > 1:
        return target is None
    return column.target in (None, target)


# ---- columns are the compared targets ----


def _read_wide(grid: Grid, columns: Sequence[Column], caption: str, units: frozenset[str]) -> Document | None:
    first, others = columns[0], columns[1:]
    in_rows = first.field in ("clients", "workers") and all(column.field == "label" for column in others)
    counts = [figure_of(re.sub(r"^c\s?=\s?", "", column.head)) for column in columns]
    in_head = not in_rows and all(counts[1:]) and _CLIENTS.search(" ".join(grid.head).lower()) is not None
    figures = [figure for _, cells, _ in grid.rows for cell in cells[1 : len(columns)] if (figure := figure_of(cell))]
    if not others or not figures or not (in_rows or in_head):
        return None
    words, factor = without_factor(" ".join([first.head, caption]).lower())
    style = style_of(figures, grid.separator)
    is_latency = re.search(r"\bms\b|latency|latencies|seconds|%", caption.lower()) is not None
    named = units_in(words)
    if len(named) != 1 and not is_latency:
        named = units
    unit = next(iter(named)) if len(named) == 1 else None
    assumed = unit is None and not is_latency and not units
    if assumed:
        values = [0.0]
        for figure in figures:
            with suppress(ValueError):
                values.append(style.value(figure))
        assumed = statistics.median(values[1:] or values) >= _PLAUSIBLE_RATE
        unit = "tps" if assumed else None
    found = Document()
    notes = _distinct_notes(grid, columns) if in_rows else {}
    for line, cells, text in grid.rows:
        outputs: list[Output] = []
        of_row = figure_of(cells[0]) if in_rows else None
        for at in range(1, min(len(columns), len(cells)) if unit is not None else 0):
            figure, count = figure_of(cells[at]), of_row if in_rows else counts[at]
            with suppress(ValueError):
                if figure is None or count is None or unit is None:
                    continue
                value, clients = Column(unit, caption, factor=factor).value(figure, style), Style().value(count)
                if value is not None:
                    name = columns[at].head.strip("*` ") if in_rows else _text(cells[0]) or None
                    outputs.append(Output("table", line, line, target=name, group=grid.line))
                    outputs[-1].put("clients", int(clients), line, text)
                    outputs[-1].put(unit, value, line, text)
                    outputs[-1].variables |= {"note": notes[line]} if line in notes else {}
                    outputs[-1].words |= {"unit": ASSUMED} if assumed else {}
        found.outputs += outputs
        printed = sum(_has_digit(cells, [at]) for at in range(1, len(columns)))
        if (outputs and len(outputs) < printed) or (not outputs and _has_figure(cells, range(1, len(cells)))):
            found.unread.append(_unread(line, text))
    return found


def units_in(text: str) -> frozenset[str]:
    found = {match[0].lower() for match in re.finditer(r"\b(?:tps|qps|tpm|nopm)\b", text, re.IGNORECASE)}
    if re.search(r"transactions? (?:per|a) second|transactions?/s", text, re.IGNORECASE):
        found.add("tps")
    return frozenset(found)


def _text(cell: str) -> str:
    return cell.replace("**", "").replace("`", "").replace("__", "").strip().strip("*_ ")


def _has_figure(cells: Sequence[str], places: Sequence[int] | range) -> bool:
    return any(at < len(cells) and figure_of(cells[at]) is not None for at in places)


def _has_digit(cells: Sequence[str], places: Sequence[int]) -> bool:
    return any(at < len(cells) and any(character.isdigit() for character in cells[at]) for at in places)


def _unread(line: int, text: str) -> UnusedLine:
    return unused_line(line, text.strip()[:400])
