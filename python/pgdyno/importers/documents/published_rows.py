"""Converts tables of figures to trials: one per row, or one per cell if columns are the compared targets."""

from __future__ import annotations

import re
import statistics
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

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
    plain,
    style_of,
    without_factor,
)
from pgdyno.importers.documents.text_tables import RATES, Grid, transposed
from pgdyno.importers.documents.time_columns import moments, names_times, time_column
from pgdyno.importers.parsed import Output, Unread, looks_like_figure
from pgdyno.messages import Message

_WHOLE = frozenset(
    [
        "clients",
        "workers",
        "scale",
        "warehouses",
        "reads",
        "writes",
        "others",
        "errors",
        "transactions",
        "failed",
        "skipped",
        "retried",
        "retries",
    ]
)
_ROW_NUMBERS = ("#", "n", "no", "no.", "№")
_PROTOCOLS = ("simple", "extended", "prepared")
_LITTLE = (0.0005, 0.002)
"""Clients per second over throughput: about 1/1000 if the dot of a throughput separated thousands."""
_PLAUSIBLE_RATE = 50.0
"""Without a unit, larger figures below counts of clients are transactions per second; smaller ones may be ms."""
_AS_WORDS = ("result", "clients/workers")
_SHARE = re.compile(r"\d[\d.,]{0,20}\s?(?:%|x\b|×)")  # noqa: RUF001
LONGEST_WORD = 100
"""Characters of a cell that are kept as they are."""
ASSUMED = "not printed: taken as transactions a second"


@dataclass(slots=True)
class GridTrials:
    outputs: list[Output] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)


def trials_of_grid(grid: Grid, caption: str, units: frozenset[str]) -> GridTrials:
    """Return trials and unread rows of `grid`; `caption` is the text above it, which may name the unit, and `units` are
    those that the document names anywhere.

    Both are empty if it is not a table of figures.
    """
    columns = columns_of(grid.head)
    if columns[0].field in RATES and all(column.field == "label" and figure_of(column.head) for column in columns[1:]):
        # the unit may be in the column of row names: `TPS | 8 clients | 16 clients`
        return _wide(grid, columns, f"{grid.head[0]}", units) or GridTrials()
    if any(column.field in RATES for column in columns):
        return _by_rows(grid, columns)
    turned = transposed(grid)
    if turned is not None:
        if names_times(grid.head[0]):
            turned.head[0] = grid.head[0]
        return _by_rows(turned, columns_of(turned.head))
    found = _wide(grid, columns, caption, units)
    if found is not None:
        return found
    unread = [at for at, column in enumerate(columns) if column.field == "derived"]
    if units_in(caption) or "latency" in caption.lower():
        # what the text above says of a table whose columns pgdyno does not know
        unread = list(range(1, len(columns)))
    if any(column.field == "clients" for column in columns):
        unread += [at for at, column in enumerate(columns) if column.is_latency and column.has_unit]
    return GridTrials(unread=[_unread(line, text) for line, cells, text in grid.rows if _has_figure(cells, unread)])


# ---- a trial per row ----


def _by_rows(grid: Grid, columns: Sequence[Column]) -> GridTrials:
    found = GridTrials()
    rates = [at for at, column in enumerate(columns) if column.field in RATES]
    figures_at = [at for at, column in enumerate(columns) if column.field not in (*NO_FIGURES, "clients/workers")]
    labels = _labels(columns, rates[0])
    unnamed = [at for at, column in enumerate(columns) if column.field == "label" and at not in labels]
    styles = _styles(grid, columns, figures_at, unnamed)
    texts = [at for at in labels if any(at < len(cells) and figure_of(cells[at]) is None for _, cells, _ in grid.rows)]
    moment = time_column(grid.head, [cells for _, cells, _ in grid.rows], [*texts, *_settings(columns)])
    if moment is not None:
        return GridTrials(unread=[moments(grid.line, grid.head[moment])])
    measured_at = [at for at in figures_at if columns[at].is_measured]
    notes = _telling_notes(grid, columns)
    carried: dict[int, str] = {}
    for line, cells, text in grid.rows:
        row = _Row(line, text, cells, columns, styles)
        for at in labels:
            value = _text(cells[at]) if at < len(cells) else ""
            carried[at] = value or (carried.get(at, "") if at == 0 else "")
        outputs = row.outputs(rates)
        if outputs:
            found.unread += row.unread(measured_at, unnamed, outputs)
        for output in outputs:
            _label(output, columns, labels, carried)
            output.variables |= {"note": notes[line]} if line in notes else {}
            output.group = grid.line
        found.outputs += outputs
        if not outputs and _has_digit([_SHARE.sub("", cell) for cell in cells], measured_at):
            found.unread.append(_unread(line, text))
    return found


def _telling_notes(grid: Grid, columns: Sequence[Column]) -> dict[int, str]:
    at = next((at for at, column in enumerate(columns) if column.field == "clients"), None)
    found: dict[str, dict[int, str]] = {}
    for line, cells, _ in grid.rows:
        figure = figure_of(cells[at]) if at is not None and at < len(cells) else None
        if figure is not None:
            found.setdefault(figure.digits, {})[line] = figure.note
    return {
        line: note for alike in found.values() if len(set(alike.values())) > 1 for line, note in alike.items() if note
    }


def _settings(columns: Sequence[Column]) -> list[int]:
    fields = ("clients", "clients/workers", "workers", "scale", "warehouses")
    return [
        at for at, column in enumerate(columns)
        if column.field in fields or (column.field == "ordinal" and plain(column.head) not in _ROW_NUMBERS)
    ]  # fmt: skip


def _styles(
    grid: Grid, columns: Sequence[Column], figures_at: Sequence[int], unnamed: Sequence[int]
) -> dict[int, Style]:
    by_column = {
        at: [figure for _, cells, _ in grid.rows if at < len(cells) and (figure := figure_of(cells[at]))]
        for at in (*figures_at, *unnamed)
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
    """Return whether `1.436` is more than a thousand: clients and latency must indicate it, and all figures have this
    form.
    """
    if not figures or not any(re.fullmatch(r"\d{1,3}\.\d{3}", each.digits) for each in figures):
        return False
    if not all(re.fullmatch(r"\d{1,3}(?:\.\d{3})+|\d{1,3}", each.digits) for each in figures):
        return False
    clients = next((at for at, column in enumerate(columns) if column.field == "clients"), None)
    latency = next((at for at, column in enumerate(columns) if column.field == "latency_mean_ms"), None)
    if clients is None or latency is None:
        return False
    ratios = []
    for _, cells, _ in grid.rows:
        if max(rate, clients, latency) >= len(cells):
            continue
        found = [figure_of(cells[at]) for at in (rate, clients, latency)]
        try:
            tps, count, ms = (Style().value(each) for each in found if each is not None)
            ratios.append(tps * ms * columns[latency].factor / 1000 / count)
        except (ValueError, ZeroDivisionError):
            continue
    return bool(ratios) and _LITTLE[0] < statistics.median(ratios) < _LITTLE[1]


def _labels(columns: Sequence[Column], first_rate: int) -> list[int]:
    return [
        at for at, column in enumerate(columns)
        if column.field == "label" and (at < first_rate or (plain(column.head) in TARGET and column.head.strip()))
    ]  # fmt: skip


def _label(output: Output, columns: Sequence[Column], labels: Sequence[int], values: dict[int, str]) -> None:
    names: list[str] = []
    has_clients = any(column.field in ("clients", "clients/workers") or column.clients for column in columns)
    for at in labels:
        value, head = values.get(at, ""), plain(columns[at].head)
        if is_warmup(value):
            output.warmup = value
        if not value or is_warmup(value) or ORDINAL.fullmatch(value):
            # a repeat, not a target
            continue
        if head in MODES and value.lower() in _PROTOCOLS:
            output.protocol = value.lower()
        elif head in WORKLOADS and (has_clients or len(labels) > 1):
            output.workload = value
        elif head in TARGET or (not has_clients and at == labels[0]):
            names.append(value)
        else:
            output.variables[head] = value
    if output.target is not None:
        names.append(output.target)
    output.target = ", ".join(names) or None


@dataclass(slots=True)
class _Row:
    line: int
    text: str
    cells: Sequence[str]
    columns: Sequence[Column]
    styles: dict[int, Style]

    def outputs(self, rates: Sequence[int]) -> list[Output]:
        found: dict[tuple[str | None, int], Output] = {}
        seen: dict[tuple[str | None, str], int] = {}
        for at in rates:
            value = self._value(at)
            if value is None:
                continue
            column = self.columns[at]
            if column.connecting is not None:
                output = found.setdefault((column.target, 0), self._output(column))
                output.put(f"tps_{column.connecting}_connections", value, self.line, self.text)
                if output.tps is None or column.connecting == "excluding":
                    output.put("tps", value, self.line, self.text)
                continue
            repeat = seen.get((column.target, column.field), 0)
            seen[column.target, column.field] = repeat + 1
            output = found.setdefault((column.target, repeat), self._output(column))
            output.put(column.field, value, self.line, self.text)
            if column.clients is not None:
                output.put("clients", column.clients, self.line, column.head)
        targets = {output.target for output in found.values()}
        for output in found.values():
            self._complete(output, targets)
        return list(found.values())

    def _complete(self, output: Output, targets: Collection[str | None]) -> None:
        for at, column in enumerate(self.columns):
            if at >= len(self.cells) or column.is_rate or not _belongs_to(column, output.target, targets):
                continue
            if column.field in _AS_WORDS:
                self._keep_words(output, column, _text(self.cells[at]))
            elif column.field not in NO_FIGURES and (value := self._value(at)) is not None:
                self._put(output, column, value)

    def _keep_words(self, output: Output, column: Column, text: str) -> None:
        pair = re.match(r"(\d{1,6})\s?/\s?(\d{1,6})", text)
        if column.field == "result" and text:
            output.words[plain(column.head)] = text[:LONGEST_WORD]
        elif column.field == "clients/workers" and pair is not None:
            output.put("clients", int(pair[1]), self.line, self.text)
            output.put("workers", int(pair[2]), self.line, self.text)

    def _put(self, output: Output, column: Column, value: float) -> None:
        if re.fullmatch(r"p[\d.]+", column.field):
            if (percent := float(column.field[1:])) not in output.percentiles_ms:
                output.put_percentile(percent, value, self.line, self.text)
            return
        name: str | None = column.field
        if name == "clients" and output.clients is not None:
            # a second count after that of clients is that of the generator's threads
            name = "workers" if "thread" in plain(column.head) else None
        if name is None or getattr(output, name) is not None or (name in _WHOLE and value != int(value)):
            return
        output.put(name, int(value) if name in _WHOLE else value, self.line, self.text)

    def _output(self, column: Column) -> Output:
        return Output("table", self.line, self.line, target=column.target)

    def _value(self, at: int) -> float | None:
        figure = figure_of(self.cells[at]) if at < len(self.cells) else None
        if figure is None:
            return None
        try:
            return self.columns[at].value(figure, self.styles.get(at, Style()))
        except ValueError:
            return None

    def unread(self, places: Sequence[int], unnamed: Sequence[int], outputs: Sequence[Output]) -> list[Unread]:
        targets = {output.target for output in outputs}
        left = [
            at for at in places
            if _has_digit(self.cells, [at])
            and (
                self._value(at) is None or not any(_belongs_to(self.columns[at], target, targets) for target in targets)
            )
        ]  # fmt: skip
        left += [at for at in unnamed if at < len(self.cells) and looks_like_figure(self.cells[at])]
        return [
            Unread(
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


def _belongs_to(column: Column, target: str | None, targets: Collection[str | None]) -> bool:
    if column.target is None and column.is_measured and not column.is_rate and len(targets) > 1:
        return target is None
    return column.target in (None, target)


# ---- columns are the compared targets ----


def _wide(grid: Grid, columns: Sequence[Column], caption: str, units: frozenset[str]) -> GridTrials | None:
    first, others = columns[0], columns[1:]
    in_rows = first.field in ("clients", "workers") and all(column.field == "label" for column in others)
    heads = [figure_of(re.sub(r"^c\s?=\s?", "", column.head)) for column in others]
    in_head = (
        not in_rows
        and all(heads)
        and (
            re.search(
                r"(?<!\w)(?:clients?|connections?|threads?|users|vus?|接続数|クライアント数|클라이언트|连接数)(?!\w)",
                " ".join([first.head, *(column.head for column in others)]).lower(),
            )
            is not None
        )
    )
    if not others or not (in_rows or in_head):
        return None
    figures = [
        figure
        for _, cells, _ in grid.rows
        for cell in cells[1 : len(columns)]
        if (figure := figure_of(cell)) is not None
    ]
    if not figures:
        return None
    words, factor = without_factor(" ".join([first.head, caption]).lower())
    unit = _unit_of(words)
    style = style_of(figures, grid.separator)
    is_latency = re.search(r"\bms\b|latency|latencies|seconds|%", caption.lower()) is not None
    if unit is None and not is_latency and len(units) == 1:
        (unit,) = units
    assumed = unit is None and not is_latency and not units
    if assumed:
        assumed = statistics.median(_values(style, figures) or [0.0]) >= _PLAUSIBLE_RATE
        unit = "tps" if assumed else None
    measured = Column(unit, caption, factor=factor) if unit is not None else None
    found = GridTrials()
    notes = _telling_notes(grid, columns) if in_rows else {}
    for line, cells, text in grid.rows:
        outputs = _wide_row(columns, cells, line, text, measured, style, in_rows) if measured is not None else []
        for output in outputs:
            output.group = grid.line
            output.variables |= {"note": notes[line]} if line in notes else {}
            if assumed:
                output.words["unit"] = ASSUMED
        found.outputs += outputs
        printed = sum(_has_digit(cells, [at]) for at in range(1, len(columns)))
        if (outputs and len(outputs) < printed) or (not outputs and _has_figure(cells, range(1, len(cells)))):
            found.unread.append(_unread(line, text))
    return found


def _wide_row(
    columns: Sequence[Column], cells: Sequence[str], line: int, text: str, measured: Column, style: Style, in_rows: bool
) -> list[Output]:
    outputs = []
    clients = figure_of(cells[0]) if in_rows else None
    if in_rows and clients is None:
        return []
    for at in range(1, min(len(columns), len(cells))):
        figure = figure_of(cells[at])
        count = clients if in_rows else figure_of(re.sub(r"^c\s?=\s?", "", columns[at].head))
        if figure is None or count is None:
            continue
        try:
            value, number = measured.value(figure, style), Style().value(count)
        except ValueError:
            continue
        if value is None:
            continue
        output = Output(
            "table", line, line, target=columns[at].head.strip("*` ") if in_rows else _text(cells[0]) or None
        )
        output.put("clients", int(number), line, text)
        output.put(measured.field, value, line, text)
        outputs.append(output)
    return outputs


def _values(style: Style, figures: Sequence[Figure]) -> list[float]:
    values = []
    for figure in figures:
        try:
            values.append(style.value(figure))
        except ValueError:
            continue
    return values


def _unit_of(text: str) -> str | None:
    found = units_in(text)
    return next(iter(found)) if len(found) == 1 else None


def units_in(text: str) -> frozenset[str]:
    """Return the units of throughput in `text`."""
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


def _unread(line: int, text: str) -> Unread:
    return Unread(line, text.strip()[:400])
