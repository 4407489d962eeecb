"""`pgdyno compare` and `pgdyno gate`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from rich.cells import cell_len

from pgdyno.analyse.comparison import Comparison, compare
from pgdyno.analyse.gate import LEAST_POWER, Gate, GateVerdict, gate
from pgdyno.analyse.noise_floor import NoiseFloor
from pgdyno.analyse.noise_grade import grade_against_none
from pgdyno.commands.support.compared_runs import Compared, ComparedRuns
from pgdyno.commands.support.report_files import check_report_file, raise_first, unwritten, write_report_file
from pgdyno.console import Console
from pgdyno.errors import ExitCode, UsageError
from pgdyno.messages import Message, message_json
from pgdyno.records import Outcome
from pgdyno.report.answers.comparison import comparison_lines, confounded_line, noise_lines, stopping_line
from pgdyno.report.answers.comparison_export import comparison_json, noise_json
from pgdyno.report.answers.gate_export import (
    gate_json,
    gate_junit,
    gate_markdown,
    gate_verdict_words,
    gate_words,
    power_line,
)
from pgdyno.report.answers.noise import gate_noise
from pgdyno.report.answers.noise import noise_json as noise_grade_json
from pgdyno.report.answers.refusal import (
    Reason,
    reason_lines,
    reason_notes,
    reasons_json,
    refusal_headline,
    refusal_lines,
    refused_junit,
    refused_markdown,
)
from pgdyno.report.costs import price_basis_line, price_comparison_lines
from pgdyno.report.report_tables import table_lines
from pgdyno.report.sections.statement_tables import plan_tables
from pgdyno.report.terminal.text_drawing import wrapped
from pgdyno.safe_output import print_json

_PERCENT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*%\s*")
NARROWEST, WIDEST = 60, 120


def compare_runs(what: Compared, *, noise: bool, json: bool) -> ExitCode:
    """Prints the comparison, the noise floor, or the reasons for a refusal. Raises StoreError and UsageError."""
    if noise and (what.second is not None or what.floor_from is not None):
        raise UsageError("--noise-floor takes one run", hint="pgdyno compare RUN --noise-floor")
    runs = _with_trials(ComparedRuns.of(what))
    reasons = runs.reasons()
    if reasons and not what.force:
        _print_refusal(reasons, json=json)
        return ExitCode.INVALID
    if noise:
        floors = runs.noise_floors()
        _print_noise(floors, reasons, json=json)
        return ExitCode.INVALID if any(each.refusal is not None for each in floors) else ExitCode.OK
    comparisons = compare(runs.arms(), floor=runs.floor_ratio())
    notes = runs.notes()
    if json:
        found = {
            **_notes_json(notes),
            "removed": runs.removed_json(),
            "comparisons": [_with_prices(each, runs) for each in comparisons],
            "query_plans": [asdict(each) for each in runs.changed_plans()],
        }
        print_json({"invalid": reasons_json(reasons), **found}, indent=2)
        return ExitCode.OK
    print_comparisons(comparisons, reasons, list(map(str, notes)), Console(), runs)
    return ExitCode.OK


def _with_trials(runs: ComparedRuns) -> ComparedRuns:
    """Returns `runs`. Raises UsageError if one of them has no finished trial."""
    for run in (runs.first, runs.second):
        if run is not None and not any(trial.outcome is Outcome.FINISHED for trial in run.trials):
            name, planned = run.manifest.run, run.manifest.trials_planned
            raise UsageError(
                f"run {name} has no finished trials to compare ({len(run.trials)} of {planned} ran)",
                hint=f"to see why: pgdyno show {name}",
            )
    return runs


def print_comparisons(
    comparisons: Sequence[Comparison],
    reasons: Sequence[Reason],
    notes: Sequence[str],
    console: Console,
    runs: ComparedRuns | None = None,
) -> None:
    """Prints `comparisons` with the reasons against them; with `runs`, what throughput costs and which query plans
    differ, too.
    """
    _print_reasons(reasons, console)
    for at, comparison in enumerate(comparisons):
        _print_comparison(comparison, console, first=at == 0, struck=bool(reasons))
        prices = [] if runs is None else runs.prices(comparison)
        for line in price_comparison_lines(comparison.base, comparison.other, prices):
            console.print(line, soft_wrap=True)
        lists = None if runs is None else runs.price_lists(comparison)
        if lists is not None:
            _print_wrapped(price_basis_line(*lists), console)
    for table in [] if runs is None else plan_tables(runs.changed_plans()):
        console.print()
        _print_wrapped(table.caption, console)
        for line in table_lines(table, min(max(console.width, NARROWEST), WIDEST)):
            console.print(line, soft_wrap=True)
    _print_notes([*_warnings(comparisons), *notes], console, _confounders(comparisons))


def run_gate(
    what: Compared,
    limit: str,
    *,
    junit: Path | None,
    md: Path | None,
    json: bool,
    confirm: bool = False,
    allow_inconclusive: bool = False,
) -> ExitCode:
    """Prints the gate's verdict, writes its files, and returns the exit code. Raises StoreError and UsageError.

    With `confirm`, a suspected regression is measured again, and only the new figures decide about it. With
    `allow_inconclusive`, a gate that cannot decide passes, if it would probably have found twice the limit.
    """
    allowed = _ratio(limit)
    for path in (junit, md):
        if path is not None:
            check_report_file(path)
    runs = _with_trials(ComparedRuns.of(what))
    reasons = runs.reasons()
    if reasons and not what.force:
        for path, refused in ((junit, refused_junit), (md, refused_markdown)):
            if path is not None:
                write_report_file(path, refused(reasons))
        _print_refusal(reasons, json=json)
        return ExitCode.INVALID
    # every output of a forced comparison names the reasons against it
    forced = reason_notes(reasons)
    all_arms = [replace(arms, notes=(*forced, *arms.notes)) for arms in runs.arms()]
    notes = runs.notes()
    if len(all_arms) != 1:
        names = ", ".join([all_arms[0].base, *(arms.other for arms in all_arms)])
        raise UsageError(
            f"a gate compares one baseline with one candidate, not {names}", hint="gate two runs, or two targets"
        )
    floor = runs.floor_ratio()
    judged = gate(all_arms[0], allowed)
    if confirm and judged.verdict is GateVerdict.REGRESSION:
        # it starts servers, which a gate of stored runs does not need
        from pgdyno.commands.support.gate_confirmation import confirmed

        found_again = confirmed(judged, what, runs, json=json)
        judged = found_again.judged
        notes += found_again.notes
    code = _exit_code(judged, allow_inconclusive=allow_inconclusive)
    if allow_inconclusive and code is ExitCode.INCONCLUSIVE:
        notes.append(_TOO_WEAK)
    notes += _floor_above(allowed, floor)
    files = ((junit, gate_junit), (md, gate_markdown))
    errors = [unwritten(path, text(judged, notes)) for path, text in files if path is not None]
    if json:
        found = {"invalid": reasons_json(reasons), **_notes_json(notes), "removed": runs.removed_json()}
        noise = noise_grade_json(grade_against_none(judged.comparison))
        print_json({**found, **gate_json(judged), "noise": noise}, indent=2)
    else:
        _print_gate(judged, notes)
    raise_first(errors)
    return code


_TOO_WEAK = Message(
    "gate-too-weak",
    "an inconclusive gate may pass only if it finds twice the limit with a chance of {least:.0%} or more",
    least=LEAST_POWER,
)


def _floor_above(allowed: float, floor: float) -> list[Message]:
    if floor <= allowed:
        return []
    return [
        Message(
            "floor-above-limit",
            "two equal servers differ by up to {floor_percent:.2g} % here, more than the {allowed_percent:.2g} % "
            "allowed: a regression may be noise",
            floor_percent=100 * floor,
            allowed_percent=100 * allowed,
        )
    ]


def _exit_code(judged: Gate, *, allow_inconclusive: bool) -> ExitCode:
    if judged.verdict is GateVerdict.INCONCLUSIVE and allow_inconclusive and judged.power >= LEAST_POWER:
        return ExitCode.OK
    return {
        GateVerdict.OK: ExitCode.OK,
        GateVerdict.REGRESSION: ExitCode.REGRESSION,
        GateVerdict.INCONCLUSIVE: ExitCode.INCONCLUSIVE,
    }[judged.verdict]


def _notes_json(notes: Sequence[Message]) -> dict[str, object]:
    return {"notes": [str(each) for each in notes], "note_details": [message_json(each) for each in notes]}


def _ratio(text: str) -> float:
    match = _PERCENT.fullmatch(text)
    if match is None or not 0 < float(match[1]) < 100:
        raise UsageError(f"{text!r} is not a limit", hint="write a percentage, such as 3%")
    return float(match[1]) / 100


def _with_prices(of: Comparison, runs: ComparedRuns) -> dict[str, object]:
    lists = runs.price_lists(of)
    bases = [each.model_dump(mode="json", exclude={"target", "latency"}) for each in lists or ()]
    return {**comparison_json(of), "prices": [asdict(each) for each in runs.prices(of)], "price_lists": bases}


def _print_refusal(reasons: Sequence[Reason], *, json: bool) -> None:
    if json:
        print_json({"invalid": reasons_json(reasons), "comparisons": []}, indent=2)
        return
    console = Console()
    for at, line in enumerate(refusal_lines(reasons)):
        console.print(line, style="bold red" if at == 0 else "", soft_wrap=True)


def _print_reasons(reasons: Sequence[Reason], console: Console) -> None:
    for line in [f"not a claim: {refusal_headline(reasons)}:", *reason_lines(reasons), ""] if reasons else []:
        console.print(line, style="bold red", soft_wrap=True)


def _print_comparison(comparison: Comparison, console: Console, *, first: bool, struck: bool) -> None:
    if not first:
        console.print()
    width = min(max(console.width, NARROWEST), WIDEST)
    confounded = confounded_line(comparison)
    if confounded is not None:
        _print_wrapped(confounded, console, "bold yellow", width)
    for at, line in enumerate(comparison_lines(comparison, width, unicode=_unicode(console))):
        style = ("strike" if struck else "bold") if at == 0 else ""
        # terminals that cannot strike through still show the lines above
        _print_wrapped(line, console, style, width)


def _warnings(comparisons: Sequence[Comparison]) -> list[str]:
    return list(dict.fromkeys(str(warning) for each in comparisons for warning in each.warnings))


def _print_noise(floors: Sequence[NoiseFloor], reasons: Sequence[Reason], *, json: bool) -> None:
    if json:
        print_json([noise_json(each) for each in floors], indent=2)
        return
    console = Console()
    _print_reasons(reasons, console)
    for each in floors:
        for at, line in enumerate(noise_lines(each)):
            _print_wrapped(line, console, "bold" if at == 0 else "")
    _print_notes(list(dict.fromkeys(str(warning) for each in floors for warning in each.warnings)), console)


def _print_gate(judged: Gate, notes: Sequence[Message]) -> None:
    console = Console()
    style = {GateVerdict.OK: "green", GateVerdict.REGRESSION: "red", GateVerdict.INCONCLUSIVE: "yellow"}
    console.print(f"gate: {gate_verdict_words(judged)}", style=style[judged.verdict])
    for point in judged.points:
        _print_wrapped(f"{point.verdict.value}: {gate_words(judged, point)}", console)
    stopped = stopping_line(judged.comparison)
    for line in (*([] if stopped is None else [stopped]), *gate_noise(judged.comparison), power_line(judged)):
        _print_wrapped(line, console)
    _print_notes([*map(str, judged.comparison.warnings), *map(str, notes)], console, _confounders([judged.comparison]))


def _confounders(comparisons: Sequence[Comparison]) -> list[str]:
    return list(dict.fromkeys(str(each.message) for comparison in comparisons for each in comparison.confounders))


def _print_notes(notes: Sequence[str], console: Console, confounders: Sequence[str] = ()) -> None:
    if notes or confounders:
        console.print()
    for confounder in confounders:
        _print_wrapped(f"confounder: {confounder}", console, "yellow")
    # both runs may have the same note
    for note in dict.fromkeys(notes):
        _print_wrapped(f"note: {note}", console, "yellow")


def _print_wrapped(text: str, console: Console, style: str = "", width: int | None = None) -> None:
    room = width if width is not None and console.is_terminal else console.room
    for line in wrapped(text, room) if cell_len(text) > room else [text]:
        console.print(line, style=style, soft_wrap=True)


def _unicode(console: Console) -> bool:
    return console.encoding.lower().replace("-", "").startswith("utf")
