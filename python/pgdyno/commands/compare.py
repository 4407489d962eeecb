"""`pgdyno compare` and `pgdyno gate`: what the figures of two arms say of each other."""

from __future__ import annotations

import json as json_module
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from rich.console import Console

from pgdyno.analyse.compare import Comparison, compare
from pgdyno.analyse.gate import Gate, GateVerdict, gate
from pgdyno.analyse.metric import Metric, usual_metric
from pgdyno.analyse.noise import NoiseFloor, noise_floor
from pgdyno.analyse.pairs import Arms, between, usual_split, within
from pgdyno.analyse.price_comparison import PriceComparison, compare_prices
from pgdyno.analyse.series import Series, varying
from pgdyno.audit import Finding, audit
from pgdyno.audit import Severity as AuditSeverity
from pgdyno.commands.arm_prices import alike, alone, arm_prices, total_of
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
from pgdyno.report.prices import price_comparison_lines
from pgdyno.report.refusal import (
    Grounds,
    Reason,
    reason_lines,
    reasons_json,
    refusal_lines,
    refused_junit,
    refused_markdown,
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
    metric: Literal["tps", "p99", "mean"] | None
    """None: what the first run is usually compared by."""
    by: str | None
    base: str | None
    floor_from: str | None
    force: bool = False
    """Show it although the audit says invalid."""
    price: Path | None = None
    """A price file; None: the plans' prices."""


def compare_runs(what: Compared, *, noise: bool, json: bool) -> ExitCode:
    """Prints the comparison, or the noise floor; or why there is none. Raises StoreError and UsageError."""
    if noise and (what.second is not None or what.floor_from is not None):
        raise UsageError("--noise-floor is of one run", hint="pgdyno compare RUN --noise-floor")
    runs = _Runs.of(what)
    reasons = runs.reasons()
    if reasons and not what.force:
        _print_refusal(reasons, json=json)
        return ExitCode.INVALID
    if noise:
        floors = [noise_floor(arms) for arms in runs.arms()]
        _print_noise(floors, reasons, json=json)
        return ExitCode.INVALID if any(each.refusal is not None for each in floors) else ExitCode.OK
    comparisons = compare(runs.arms(), floor=runs.floor_ratio())
    notes = runs.differences()
    if json:
        found = {"notes": notes, "comparisons": [_with_prices(each, runs) for each in comparisons]}
        print(json_module.dumps({"invalid": reasons_json(reasons), **found}, indent=2))
        return ExitCode.OK
    console = Console(highlight=False)
    _print_reasons(reasons, console)
    for at, comparison in enumerate(comparisons):
        _print_comparison(comparison, console, first=at == 0, struck=bool(reasons))
        for line in price_comparison_lines(comparison.base, comparison.other, runs.prices(comparison)):
            console.print(line, markup=False, soft_wrap=True)
    _print_notes([*_warnings(comparisons), *notes], console)
    return ExitCode.OK


def run_gate(what: Compared, limit: str, *, junit: Path | None, md: Path | None, json: bool) -> ExitCode:
    """Prints what the gate says, writes its files, gives the exit code. Raises StoreError and UsageError."""
    allowed = _ratio(limit)
    runs = _Runs.of(what)
    reasons = runs.reasons()
    if reasons and not what.force:
        for path, refused in ((junit, refused_junit), (md, refused_markdown)):
            if path is not None:
                write_report_file(path, refused(reasons))
        _print_refusal(reasons, json=json)
        return ExitCode.INVALID
    all_arms, notes = runs.arms(), [*reason_lines(reasons), *runs.differences()]
    if len(all_arms) != 1:
        names = ", ".join([all_arms[0].base, *(arms.other for arms in all_arms)])
        raise UsageError(
            f"a gate has one baseline and one candidate, not {names}", hint="gate two runs, or two targets"
        )
    floor = runs.floor_ratio()
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
        print(json_module.dumps({"invalid": reasons_json(reasons), "notes": notes, **gate_json(judged)}, indent=2))
    else:
        _print_gate(judged, notes)
    return {
        GateVerdict.OK: ExitCode.OK,
        GateVerdict.REGRESSION: ExitCode.REGRESSION,
        GateVerdict.INCONCLUSIVE: ExitCode.INCONCLUSIVE,
    }[judged.verdict]


@dataclass(frozen=True, slots=True)
class _Runs:
    """The runs that a command line names."""

    what: Compared
    first: RunData
    second: RunData | None
    floor: RunData | None

    @classmethod
    def of(cls, what: Compared) -> _Runs:
        first = load_run(find_run(what.first, what.runs))
        if what.second is not None and (what.by is not None or what.base is not None):
            raise UsageError("--by and --base split one run", hint="leave them out, or name one run")
        second, floor = (
            None if each is None else load_run(find_run(each, what.runs)) for each in (what.second, what.floor_from)
        )
        return cls(what, first, second, floor)

    def arms(self) -> list[Arms]:
        """Arms to compare."""
        metric = self.metric()
        if self.second is None:
            return within(self.first, self.what.by or _first_difference(self.first), metric, self.what.base)
        return [between(self.first, self.second, metric)]

    def metric(self) -> Metric:
        """What they are compared by."""
        return usual_metric(self.first) if self.what.metric is None else Metric(self.what.metric)

    def reasons(self) -> list[Reason]:
        """Findings that say invalid, of every run that takes part, and why its floor is none."""
        taking_part = [run for run in (self.first, self.second, self.floor) if run is not None]
        audited = [
            Reason(run.manifest.run, finding)
            for run in taking_part
            for finding in audit(run)
            if finding.severity is AuditSeverity.INVALID
        ]
        return [*audited, *self._floor_reasons()]

    def _floor_reasons(self) -> list[Reason]:
        if self.floor is None:
            return []
        name = self.floor.manifest.run
        refusals = dict.fromkeys(each.refusal for each in self._floors() if each.refusal is not None)
        return [Reason(name, _finding("noise-floor", each.why, each.remedy), Grounds.FLOOR) for each in refusals]

    def _floors(self) -> list[NoiseFloor]:
        if self.floor is None:
            return []
        arms = within(self.floor, _first_difference(self.floor), self.metric())
        return [noise_floor(each) for each in arms]

    def prices(self, of: Comparison) -> list[PriceComparison]:
        """What throughput costs under both arms; nothing where an arm is no target with a price."""
        second = self.second or self.first
        lists = (arm_prices(self.first, self.what.price), arm_prices(second, self.what.price))
        names = (of.base, of.other) if self.second is None else (alone(self.first), alone(second))
        totals = [total_of(prices, name) for prices, name in zip(lists, names, strict=True)]
        if totals[0] is None or totals[1] is None or not alike(*lists):
            return []
        return compare_prices(of, totals[0], totals[1])

    def differences(self) -> list[str]:
        """What differs between two runs beside what is compared."""
        return [] if self.second is None else _differences(self.first, self.second)

    def floor_ratio(self) -> float:
        """The noise floor of the A/A run that is named; 0 without one, and where `--force` goes past a refusal."""
        floors = self._floors()
        return max((each.floor for each in floors if each.refusal is None), default=0.0)


def _finding(rule: str, message: str, remedy: str) -> Finding:
    """What the command itself finds, in the form of the audit's."""
    return Finding(
        rule=rule,
        severity=AuditSeverity.INVALID,
        trials=[],
        message=message,
        evidence=[],
        advice=remedy,
        source="docs/design/method.md, Verdict",
    )


def _first_difference(run: RunData) -> str:
    usual = usual_split(run)
    if usual is not None:
        return usual
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


def _ratio(text: str) -> float:
    match = _PERCENT.fullmatch(text)
    if match is None or not 0 < float(match[1]) < 100:
        raise UsageError(f"{text!r} is no limit", hint="write it in per cent, such as 3%")
    return float(match[1]) / 100


def _with_prices(of: Comparison, runs: _Runs) -> dict[str, object]:
    return {**comparison_json(of), "prices": [asdict(each) for each in runs.prices(of)]}


def _print_refusal(reasons: Sequence[Reason], *, json: bool) -> None:
    if json:
        print(json_module.dumps({"invalid": reasons_json(reasons), "comparisons": []}, indent=2))
        return
    console = Console(highlight=False)
    for at, line in enumerate(refusal_lines(reasons)):
        console.print(line, markup=False, style="bold red" if at == 0 else "", soft_wrap=True)


def _print_reasons(reasons: Sequence[Reason], console: Console) -> None:
    """On the face of a comparison that is shown nevertheless."""
    for line in ["not a claim, for figures are invalid:", *reason_lines(reasons), ""] if reasons else []:
        console.print(line, markup=False, style="bold red", soft_wrap=True)


def _print_comparison(comparison: Comparison, console: Console, *, first: bool, struck: bool) -> None:
    if not first:
        console.print()
    width = min(max(console.width, NARROWEST), WIDEST)
    for at, line in enumerate(comparison_lines(comparison, width, unicode=_unicode(console))):
        style = ("strike" if struck else "bold") if at == 0 else ""
        # where a terminal cannot strike through, the lines above say it
        console.print(line, markup=False, style=style, soft_wrap=len(line) <= width)


def _warnings(comparisons: Sequence[Comparison]) -> list[str]:
    return list(dict.fromkeys(warning for each in comparisons for warning in each.warnings))


def _print_noise(floors: Sequence[NoiseFloor], reasons: Sequence[Reason], *, json: bool) -> None:
    if json:
        print(json_module.dumps([noise_json(each) for each in floors], indent=2))
        return
    console = Console(highlight=False)
    _print_reasons(reasons, console)
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
