"""`pgdyno compare` and `pgdyno gate`: what the figures of two arms say of each other."""

from __future__ import annotations

import json as json_module
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rich.console import Console

from pgdyno.analyse.compare import Comparison, compare
from pgdyno.analyse.gate import Gate, GateVerdict, gate
from pgdyno.analyse.metric import Metric
from pgdyno.analyse.noise import NoiseFloor, noise_floor
from pgdyno.analyse.pairs import Arms, between, within
from pgdyno.analyse.series import Series, varying
from pgdyno.commands.output import write_report_file
from pgdyno.errors import ExitCode, UsageError
from pgdyno.fingerprint import Severity, comparable
from pgdyno.report.comparison import comparison_lines, noise_lines
from pgdyno.report.comparison_export import (
    comparison_json,
    gate_json,
    gate_junit,
    gate_markdown,
    gate_words,
    noise_json,
)
from pgdyno.store import RunData, find_run, load_run

_PERCENT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*%\s*")
NARROWEST, WIDEST = 60, 120


@dataclass(frozen=True, slots=True)
class Compared:
    """What the command line says is compared."""

    first: str
    second: str | None
    runs: Path
    metric: Literal["tps", "p99", "mean"]
    by: str | None
    base: str | None
    floor_from: str | None


def compare_runs(what: Compared, *, noise: bool, json: bool) -> None:
    """Prints the comparison, or the noise floor. Raises StoreError and UsageError."""
    if noise:
        if what.second is not None or what.floor_from is not None:
            raise UsageError("--noise-floor is of one run", hint="pgdyno compare RUN --noise-floor")
        floors = [noise_floor(arms) for arms in _all_arms(what)[0]]
        _print_noise(floors, json=json)
        return
    all_arms, notes = _all_arms(what)
    comparisons = compare(all_arms, floor=_floor(what))
    if json:
        print(
            json_module.dumps(
                {"notes": notes, "comparisons": [comparison_json(each) for each in comparisons]}, indent=2
            )
        )
        return
    console = Console(highlight=False)
    for at, comparison in enumerate(comparisons):
        _print_comparison(comparison, console, first=at == 0)
    _print_notes([*_warnings(comparisons), *notes], console)


def run_gate(what: Compared, limit: str, *, junit: Path | None, md: Path | None, json: bool) -> ExitCode:
    """Prints what the gate says, writes its files, gives the exit code. Raises StoreError and UsageError."""
    allowed = _ratio(limit)
    all_arms, notes = _all_arms(what)
    if len(all_arms) != 1:
        names = ", ".join([all_arms[0].base, *(arms.other for arms in all_arms)])
        raise UsageError(
            f"a gate has one baseline and one candidate, not {names}", hint="gate two runs, or two targets"
        )
    floor = _floor(what)
    judged = gate(all_arms[0], allowed)
    if floor > allowed:
        notes.append(
            f"two equal servers differ by up to {100 * floor:.2g} % here, more than the {100 * allowed:.2g} % allowed: "
            "a regression may be none"
        )
    for path, text in ((junit, gate_junit), (md, gate_markdown)):
        if path is not None:
            write_report_file(path, text(judged))
    if json:
        print(json_module.dumps({"notes": notes, **gate_json(judged)}, indent=2))
    else:
        _print_gate(judged, notes)
    return {
        GateVerdict.OK: ExitCode.OK,
        GateVerdict.REGRESSION: ExitCode.REGRESSION,
        GateVerdict.INCONCLUSIVE: ExitCode.INCONCLUSIVE,
    }[judged.verdict]


def _all_arms(what: Compared) -> tuple[list[Arms], list[str]]:
    """Arms to compare, and what differs between two runs beside what is compared."""
    first = load_run(find_run(what.first, what.runs))
    if what.second is None:
        return within(first, what.by or _first_difference(first), Metric(what.metric), what.base), []
    if what.by is not None or what.base is not None:
        raise UsageError("--by and --base split one run", hint="leave them out, or name one run")
    second = load_run(find_run(what.second, what.runs))
    return [between(first, second, Metric(what.metric))], _differences(first, second)


def _first_difference(run: RunData) -> str:
    names = varying(list(dict.fromkeys(Series.of(trial.target, trial.point) for trial in run.trials)))
    if not names:
        raise UsageError(
            f"run {run.manifest.run} has one arm only, and nothing to compare it with", hint="name a second run"
        )
    return names[0]


def _differences(first: RunData, second: RunData) -> list[str]:
    prints = (first.manifest.fingerprint, second.manifest.fingerprint)
    if prints[0] is None or prints[1] is None:
        return ["what the runs ran on is not on record: nobody can say whether it was the same"]
    return [
        f"{each.field}: {each.a} before, {each.b} after: {each.why}"
        for each in comparable(prints[0], prints[1])
        if each.severity is not Severity.HARMLESS
    ]


def _floor(what: Compared) -> float:
    if what.floor_from is None:
        return 0.0
    run = load_run(find_run(what.floor_from, what.runs))
    return max(noise_floor(arms).floor for arms in within(run, _first_difference(run), Metric(what.metric)))


def _ratio(text: str) -> float:
    match = _PERCENT.fullmatch(text)
    if match is None or not 0 < float(match[1]) < 100:
        raise UsageError(f"{text!r} is no limit", hint="write it in per cent, such as 3%")
    return float(match[1]) / 100


def _print_comparison(comparison: Comparison, console: Console, *, first: bool) -> None:
    if not first:
        console.print()
    width = min(max(console.width, NARROWEST), WIDEST)
    for at, line in enumerate(comparison_lines(comparison, width, unicode=_unicode(console))):
        console.print(line, markup=False, style="bold" if at == 0 else "", soft_wrap=len(line) <= width)


def _warnings(comparisons: Sequence[Comparison]) -> list[str]:
    return list(dict.fromkeys(warning for each in comparisons for warning in each.warnings))


def _print_noise(floors: Sequence[NoiseFloor], *, json: bool) -> None:
    if json:
        print(json_module.dumps([noise_json(each) for each in floors], indent=2))
        return
    console = Console(highlight=False)
    for each in floors:
        for at, line in enumerate(noise_lines(each)):
            console.print(line, markup=False, style="bold" if at == 0 else "")
    _print_notes(list(dict.fromkeys(warning for each in floors for warning in each.warnings)), console)


def _print_gate(judged: Gate, notes: Sequence[str]) -> None:
    console = Console(highlight=False)
    style = {GateVerdict.OK: "green", GateVerdict.REGRESSION: "red", GateVerdict.INCONCLUSIVE: "yellow"}
    console.print(f"gate: {judged.verdict.value}", style=style[judged.verdict])
    for point in judged.points:
        console.print(f"{point.verdict.value}: {gate_words(judged, point)}", markup=False)
    _print_notes([*judged.comparison.warnings, *notes], console)


def _print_notes(notes: Sequence[str], console: Console) -> None:
    if notes:
        console.print()
    for note in notes:
        console.print(f"note: {note}", markup=False, style="yellow")


def _unicode(console: Console) -> bool:
    return console.encoding.lower().replace("-", "").startswith("utf")
