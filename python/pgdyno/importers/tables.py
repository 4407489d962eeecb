"""Parses special tables: a sweep's rows, and peaks by scale; and lines of a list that name a peak."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pgdyno.importers.found import Output
from pgdyno.importers.numbers import number, whole

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
"""Words of a sweep's heading, and the corresponding fields."""
_WHOLE = {"clients", "reads", "writes", "others", "errors"}

_LONGEST = 300
"""Longest line of a list, or cell, that is examined."""
_PAIR = re.compile(r"(?P<tps>\d[\d,.]{0,30})\s{0,4}/\s{0,4}(?P<ms>[\d. ]{1,30})$")
_PROSE = re.compile(
    r"(?<![\d,])(?P<tps>\d[\d,]{0,30}) TPS on (?P<target>.{1,100}?) at scale factor (?P<scale>\d[\d,]{0,30}?)\.?$",
    re.IGNORECASE,
)
_SCALE = re.compile(r"scale\s{0,4}(?:factor)?\s{0,4}[:=]?\s{0,4}(?P<scale>[\d,]{1,30})", re.IGNORECASE)


def sweep_header(text: str) -> list[str] | None:
    """Return the fields for a line such as `thc elaptime reads … p95`; None if it is not such a heading."""
    words = text.split()
    if len(words) < 4 or any(word.lower() not in SWEEP_COLUMNS for word in words):
        return None
    fields = [SWEEP_COLUMNS[word.lower()] for word in words]
    return fields if "clients" in fields and "tps" in fields else None


def sweep_row(text: str, fields: Sequence[str], line: int) -> Output | None:
    """Return one row of a sweep; None if `text` is none. Text after the last column is a note."""
    words = text.split()
    if len(words) < len(fields):
        return None
    try:
        values = [number(word.removesuffix("s")) for word in words[: len(fields)]]
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
    """Read a line of a list such as `190,000 TPS on PostgreSQL 9.4.4 at scale factor 3,000`."""
    match = _PROSE.search(text.strip()) if len(text) <= _LONGEST else None
    if match is None:
        return None
    output = Output("table", line, line, target=match["target"])
    try:
        output.put("tps", number(match["tps"]), line, text)
        output.put("scale", whole(match["scale"]), line, text)
    except ValueError:
        return None
    return output


def _cells(text: str) -> list[str]:
    """Return the cells of a row, by tabs or Markdown's bars."""
    if "\t" in text:
        return [cell.strip() for cell in text.rstrip("\n").split("\t")]
    if text.count("|") >= 2:
        return [cell.strip() for cell in text.strip().strip("|").split("|")]
    return []


def by_scale(rows: Rows) -> tuple[list[Output], int] | None:
    """Read a table of peaks: scales across, and in pairs of rows clients/threads and tps/latency.

    `rows` begin with its possible first line. Returns the outputs and the number of lines read.
    """
    head = _cells(rows[0][1])
    scales = [_SCALE.fullmatch(cell) if len(cell) <= _LONGEST else None for cell in head[1:]]
    if len([scale for scale in scales if scale]) < 2:
        return None
    columns: list[int | None] = [None]
    for scale in scales:
        columns.append(_maybe_whole(scale["scale"]) if scale else columns[-1])
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
            figure = _peak(clients[place], figures[place])
            if figure is None:
                # the caller reads the lines one by one, and lists those that no parser accepts
                return None
            output = Output("table", at, below, target=target)
            output.put("clients", figure[0], at, clients_text)
            output.put("workers", figure[1], at, clients_text)
            output.put("tps", figure[2], below, figures[place])
            output.put("latency_mean_ms", figure[3], below, figures[place])
            output.scale = columns[place] if place < len(columns) else columns[-1]
            output.words = {"rows": clients[0], "ratio": ratios[place] if place < len(ratios) else ""}
            outputs.append(output)
        taken += 2
    return (outputs, taken) if outputs else None


def _peak(clients: str, figures: str) -> tuple[int, int, float, float] | None:
    """Read clients, threads, throughput and latency of a pair of cells: `26/26` above `423,148/0.123`."""
    pair, figure = clients.split("/"), _PAIR.match(figures) if len(figures) <= _LONGEST else None
    if len(pair) != 2 or figure is None:
        return None
    try:
        # a space may split a number: "0.12 3"
        return whole(pair[0]), whole(pair[1]), number(figure["tps"]), number(figure["ms"].replace(" ", ""))
    except ValueError:
        return None


def _maybe_whole(text: str) -> int | None:
    try:
        return whole(text)
    except ValueError:
        return None
