"""One trial over time for a terminal: throughput, p99, active sessions by wait, processors, disks and WAL.

It draws the same steps as the page's timeline (`over_seconds/timelines.py`). Without a terminal or Unicode, it uses
plain lines.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

from rich.text import Text

from pgdyno.report import numbers
from pgdyno.report.charts.svg import ticks_between
from pgdyno.report.sections.over_seconds.cloud_metrics import Values
from pgdyno.report.sections.over_seconds.timelines import BUSY, TrialSteps, step_sums
from pgdyno.report.terminal.text_drawing import ACCENT, printable, sparkline
from pgdyno.units import quantity

LABELS = 8
"""Columns left of the charts."""
NARROWEST = 30
HEIGHT = 6
LOWER = 4
"""Rows of throughput, and of the charts below it."""
MOST_PLAIN = 60
"""Lines of the plain form; longer trials have longer steps."""
COLOURS = {
    "CPU": "#009E73", "I/O": "#0072B2", "WAL": "#E69F00", "Lock": "#C0392B", "LWLock": "#CC79A7", "Client": "#7F7F7F",
    "other": "#56B4E9",
}  # fmt: skip
"""The colours of waits on the page: yellow and red of the terminal's own palette are verdicts."""
LETTERS = {"CPU": "C", "I/O": "I", "WAL": "W", "Lock": "L", "LWLock": "l", "Client": "c", "other": "o"}
_EIGHTHS = " ▁▂▃▄▅▆▇█"


def steps_for(width: int | None) -> int:
    return MOST_PLAIN if width is None else max(width - LABELS - 1, NARROWEST)


def timeline_lines(trial: TrialSteps, cores: int | None, width: int | None, *, colours: bool = True) -> Iterator[Text]:
    """Return the trial in at most `width` columns, or plain lines. Without `colours`, waits are drawn by letters."""
    yield Text(printable(f"trial {trial.n}: {trial.name}"), "bold")
    if width is None:
        yield from map(Text, _plain_lines(trial))
        return
    wide = max((width - LABELS - 1) // len(trial.tps), 1)
    skip = trial.skip
    # tpch has no throughput over time
    if any(value is not None for value in trial.tps):
        yield Text(_range("throughput", trial.tps[skip:], "transactions a second"))
        yield from _bars(trial.tps, HEIGHT, wide, ACCENT)
    if any(value is not None for value in trial.p99):
        yield Text(_range("p99", trial.p99[skip:], "ms, log axis"))
        yield from _bars(trial.p99, LOWER, wide, ACCENT, log=True)
    if trial.waits:
        waits = {name: [value or 0.0 for value in values] for name, values in trial.waits.items()}
        measured = {name: values[skip:] for name, values in waits.items()}
        yield _waits_title(measured, cores, colours=colours)
        yield from _stack_waits(waits, LOWER, wide, colours=colours)
    yield _axis(trial, wide)
    yield from _rows(trial, wide)
    yield from _event_lines(trial, wide)


def _range(name: str, values: Values, unit: str) -> str:
    there = [value for value in values if value is not None]
    if not there:
        return f"{name}: nothing was measured"
    return f"{name}: {numbers.range_text(numbers.round_text(min(there)), numbers.round_text(max(there)))} {unit}"


def _bars(values: Values, height: int, wide: int, style: str, *, log: bool = False) -> Iterator[Text]:
    there = [value for value in values if value is not None and (value > 0 or not log)]
    top, low = max(there, default=1.0) or 1.0, 0.0
    if log:
        low = 10 ** math.floor(math.log10(min(there, default=1.0)))
        top = max(top, low * 10)

    def share(value: float) -> float:
        return math.log(max(value, low) / low) / math.log(top / low) if log else value / top

    labels = {height - 1: numbers.axis(float(f"{top:.3g}")), 0: numbers.axis(low)}
    for row in reversed(range(height)):
        cells = (
            _EIGHTHS[min(max(round((share(value) * height - row) * 8), 0), 8)] if value is not None else " "
            for value in values
        )
        yield _label_line(labels.get(row, "")).append("".join(cell * wide for cell in cells).rstrip(), style)


def _label_line(label: str) -> Text:
    return Text().append(f"{label:>{LABELS - 2}} {'┤' if label else '│'}", "dim")


def _waits_title(waits: Mapping[str, Sequence[float]], cores: int | None, *, colours: bool) -> Text:
    """Return `active sessions: CPU 62 %, WAL 20 % (of 8 processors)`, each in its colour."""
    total = sum(map(sum, waits.values())) or 1.0
    title = Text("active sessions: ")
    for at, (name, values) in enumerate(sorted(waits.items(), key=lambda each: -sum(each[1]))):
        title.append(", " if at else "").append("" if colours else f"{LETTERS[name]} ")
        title.append(f"{name} {100 * sum(values) / total:.0f} %", COLOURS[name])
    return title.append(f"; {quantity(cores, 'processor')}", "dim") if cores else title


def _stack_waits(waits: Mapping[str, Sequence[float]], height: int, wide: int, *, colours: bool) -> Iterator[Text]:
    names = list(waits)
    steps = list(zip(*waits.values(), strict=True))
    top = max(map(sum, steps), default=0.0) or 1.0
    labels = {height - 1: numbers.axis(float(f"{top:.3g}")), 0: "0"}
    for row in reversed(range(height)):
        line = _label_line(labels.get(row, ""))
        for step in steps:
            filled = min(max(round((sum(step) / top * height - row) * 8), 0), 8)
            # the class in the middle of the filled part gives the cell its colour
            at, place = 0, (row + filled / 16) / height * top
            while at < len(step) - 1 and place >= step[at]:
                place -= step[at]
                at += 1
            shown = _EIGHTHS[filled] if colours else LETTERS[names[at]] if filled >= 4 else " "
            line.append(shown * wide, COLOURS[names[at]])
        line.rstrip()
        yield line


def _axis(trial: TrialSteps, wide: int) -> Text:
    """Return the axis of seconds; the warm-up is before 0."""
    count = len(trial.tps)
    width, seconds = count * wide, count * trial.step
    labels = [" "] * (width + 8)
    end_s = trial.begin + seconds
    end = f"{end_s:g} s"
    free = width - len(end)
    labels[free:width] = end
    # always show the end; a round second before it if there is room
    for tick in ticks_between(trial.begin, end_s, 5 if width >= 60 else 2):
        text, start = f"{tick:g}", round((tick - trial.begin) / seconds * width)
        if start + len(text) < free:
            labels[start : start + len(text)] = text
    return Text().append(" " * LABELS + "".join(labels).rstrip(), "dim")


def _rows(trial: TrialSteps, wide: int) -> Iterator[Text]:
    rows: list[tuple[str, Values, str]] = []
    if trial.busy:
        rows.append(("CPU", trial.busy, "%"))
    rows += [("disk", of, "%") for name, of in (trial.disk or {}).items() if name.endswith(BUSY)][:1]
    if trial.wal:
        rows.append(("WAL", trial.wal, "MB/s"))
    rows += [(printable(name), of, "") for name, of in (trial.queries or {}).items()]
    for name, values, unit in rows:
        known = [value or 0.0 for value in values]
        line = sparkline(known, len(known), 100.0 if unit == "%" else None)
        text = (
            Text()
            .append(f"{name[: LABELS - 2]:>{LABELS - 2}}  ", "dim")
            .append("".join(each * wide for each in line), ACCENT)
        )
        yield text
        yield Text(" " * LABELS + _range(name, values[trial.skip :], unit), "dim")


def _event_lines(trial: TrialSteps, wide: int) -> Iterator[Text]:
    count, step = len(trial.tps), trial.step
    for name, spans, character, style in (
        ("dips", trial.dips, "━", "bold"),
        ("events", [(at, at) for at, _ in trial.marks], "▲", ""),
    ):
        if spans:
            cells = [" "] * (count * wide)
            for begin, end in spans:
                first, last = ((each - trial.begin) / step for each in (begin, end))
                first = min(int(first), count - 1) * wide
                last = max(min(math.ceil(last), count) * wide, first + 1) if begin != end else first + 1
                cells[first:last] = character * (last - first)
            yield Text().append(f"{name:>{LABELS - 2}}  ", "dim").append("".join(cells).rstrip(), style)
    for at, what in trial.marks[:12]:
        yield Text(printable(f"{' ' * LABELS}{round(at)} s: {what}"), "dim")
    for begin, end in trial.dips[:12]:
        yield Text(f"{' ' * LABELS}{begin:.0f} to {end:.0f} s: dip", "dim")


def _plain_lines(trial: TrialSteps) -> Iterator[str]:
    columns: dict[str, Values] = {"tps": trial.tps, "p99, ms": trial.p99}
    if all(value is None for value in trial.tps):
        columns = {}
    if trial.waits:
        columns["active"] = step_sums(list(trial.waits.values()))
    if trial.busy:
        columns["CPU, %"] = trial.busy
    if trial.wal:
        columns["WAL, MB/s"] = trial.wal
    columns |= {printable(name): values for name, values in (trial.queries or {}).items()}
    rows = [["from, s", *columns]]
    for at in range(len(trial.tps)):
        figures = (values[at] if at < len(values) else None for values in columns.values())
        rows.append([f"{round(trial.begin + at * trial.step)}", *(_figure(each) for each in figures)])
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for at, row in enumerate(rows):
        line = "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        yield line + (_in_step(trial, at - 1) if at else "")


def _figure(value: float | None) -> str:
    return "-" if value is None else numbers.round_text(value)


def _in_step(trial: TrialSteps, at: int) -> str:
    begin = trial.begin + at * trial.step
    end = begin + trial.step
    said = ["warm-up"] if begin < trial.warm else []
    said += ["dip"] if any(first < end and last > begin for first, last in trial.dips) else []
    said += [printable(what) for when, what in trial.marks if begin <= when < end]
    return f"  {', '.join(said)}" if said else ""
