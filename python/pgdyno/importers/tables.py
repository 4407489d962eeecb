"""Tables in documents: a sweep's rows, connections against targets, and peaks by scale."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pgdyno.importers.found import Output
from pgdyno.importers.numbers import number

Rows = Sequence[tuple[int, str]]
"""Lines with their numbers."""

SWEEP_COLUMNS = {
    "thc": "clients",
    "threads": "clients",
    "thds": "clients",
    "clients": "clients",
    "elaptime": "duration_s",
    "reads": "reads",
    "writes": "writes",
    "others": "others",
    "tps": "tps",
    "qps": "qps",
    "errs": "errors",
    "errors": "errors",
    "min": "latency_min_ms",
    "avg": "latency_mean_ms",
    "max": "latency_max_ms",
    "p95": "p95",
    "p99": "p99",
}
"""Words of a sweep's header, and our fields."""
_WHOLE = {"clients", "reads", "writes", "others", "errors"}

_CLIENT_WORDS = (
    "clients",
    "connections",
    "threads",
    "users",
    "virtual users",
    "接続数",
    "クライアント数",
    "클라이언트",
    "连接数",
)
_UNITS = {"tpm": "tpm", "tps": "tps", "nopm": "nopm", "qps": "qps"}
_PAIR = re.compile(r"(?P<tps>\d[\d,]*)\s*/\s*(?P<ms>[\d. ]+)$")
_PROSE = re.compile(r"(?P<tps>\d[\d,]*) TPS on (?P<target>.+?) at scale factor (?P<scale>\d[\d,]*?)\.?$", re.IGNORECASE)
_SCALE = re.compile(r"scale\s*(?:factor)?\s*[:=]?\s*(?P<scale>[\d,]+)", re.IGNORECASE)


def sweep_header(text: str) -> list[str] | None:
    """Our fields for a line such as `thc elaptime reads … p95`; None when it is no such header."""
    words = text.split()
    if len(words) < 4 or any(word.lower() not in SWEEP_COLUMNS for word in words):
        return None
    fields = [SWEEP_COLUMNS[word.lower()] for word in words]
    return fields if "clients" in fields and "tps" in fields else None


def sweep_row(text: str, fields: Sequence[str], line: int) -> Output | None:
    """One row of a sweep; None when `text` is none."""
    words = text.split()
    if len(words) != len(fields):
        return None
    try:
        values = [number(word.removesuffix("s")) for word in words]
    except ValueError:
        return None
    output = Output("sysbench", line, line)
    for name, value in zip(fields, values, strict=True):
        if name.startswith("p"):
            output.percentiles_ms[float(name[1:])] = value
            output.printed["percentiles_ms"] = (line, text.strip())
        else:
            output.put(name, int(value) if name in _WHOLE else value, line, text)
    return output


def in_prose(text: str, line: int) -> Output | None:
    """A line of a list such as `190,000 TPS on PostgreSQL 9.4.4 at scale factor 3,000`."""
    match = _PROSE.search(text.strip())
    if match is None:
        return None
    output = Output("table", line, line, target=match["target"])
    output.put("tps", number(match["tps"]), line, text)
    output.put("scale", int(number(match["scale"])), line, text)
    return output


def _cells(text: str) -> list[str]:
    """Cells of a row by tabs, or by bars as Markdown has them."""
    if "\t" in text:
        return [cell.strip() for cell in text.rstrip("\n").split("\t")]
    if text.count("|") >= 2:
        return [cell.strip() for cell in text.strip().strip("|").split("|")]
    return []


def by_target(rows: Rows) -> tuple[list[Output], int] | None:
    """A table whose first column counts clients and whose other columns are targets, with a unit in its head.

    `rows` begin with what may be its head. Gives the outputs and how many lines they took; None when it is
    no such table.
    """
    unit, names, taken = _head(rows)
    if unit is None or names is None:
        return None
    outputs: list[Output] = []
    for line, text in rows[taken:]:
        cells = _cells(text)
        if _is_rule(text):
            taken += 1
            continue
        if len(cells) != len(names) + 1:
            break
        try:
            clients, figures = int(number(cells[0])), [number(cell) for cell in cells[1:]]
        except ValueError:
            break
        for name, figure in zip(names, figures, strict=True):
            output = Output("table", line, line, target=name)
            output.put("clients", clients, line, text)
            output.put(unit, figure, line, text)
            outputs.append(output)
        taken += 1
    return (outputs, taken) if outputs else None


def _head(rows: Rows) -> tuple[str | None, list[str] | None, int]:
    """Unit, targets and lines of a head: the unit stands beside the word for clients, above or in front of it."""
    unit: str | None = None
    clients = False
    for taken, (_, text) in enumerate(rows[:4], start=1):
        if _is_rule(text):
            continue
        cells = _cells(text)
        if not cells:
            break
        filled = [cell for cell in cells if cell]
        found = next((_UNITS[cell.lower()] for cell in filled if cell.lower() in _UNITS), None)
        clients = clients or cells[0].lower() in _CLIENT_WORDS
        unit = unit or found
        names = [cell for cell in cells[1:] if cell and cell.lower() not in _UNITS]
        if unit and clients and len(names) == len(cells) - 1 and all(not _is_number(name) for name in names):
            return unit, names, taken
    return None, None, 0


def _is_rule(text: str) -> bool:
    """The line of a Markdown table that parts its head from its rows."""
    return text.strip() != "" and set(text.strip()) <= set("|-: ")


def _is_number(text: str) -> bool:
    try:
        number(text)
    except ValueError:
        return False
    return True


def by_scale(rows: Rows) -> tuple[list[Output], int] | None:
    """A table of peaks: scales across, and in pairs of rows clients/threads and tps/latency.

    `rows` begin with what may be its first line. Gives the outputs and how many lines they took.
    """
    head = _cells(rows[0][1])
    scales = [_SCALE.fullmatch(cell) for cell in head[1:]]
    if len([scale for scale in scales if scale]) < 2:
        return None
    columns: list[int | None] = [None]
    for scale in scales:
        columns.append(int(number(scale["scale"])) if scale else columns[-1])
    target, taken = head[0], 1
    if len(rows) < 2:
        return None
    ratios = _cells(rows[1][1])
    taken += 1
    outputs: list[Output] = []
    while taken + 1 < len(rows):
        (at, clients_text), (below, figures_text) = rows[taken], rows[taken + 1]
        clients, figures = _cells(clients_text), _cells(figures_text)
        if len(clients) < 3 or "/" not in clients[1] or len(figures) != len(clients):
            break
        for place in range(2, len(clients)):
            pair, figure = clients[place].split("/"), _PAIR.match(figures[place])
            if len(pair) != 2 or figure is None:
                return None
            output = Output("table", at, below, target=target)
            output.put("clients", int(pair[0]), at, clients_text)
            output.put("workers", int(pair[1]), at, clients_text)
            output.put("tps", number(figure["tps"]), below, figures[place])
            # cells were broken in two by a space: "0.12 3"
            output.put("latency_mean_ms", float(figure["ms"].replace(" ", "")), below, figures[place])
            output.scale = columns[place] if place < len(columns) else columns[-1]
            output.words = {"rows": clients[0], "ratio": ratios[place] if place < len(ratios) else ""}
            outputs.append(output)
        taken += 2
    return (outputs, taken) if outputs else None
