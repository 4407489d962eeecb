"""`pgdyno compare` and `pgdyno gate`."""

import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pgdyno.commands.support import options
from pgdyno.errors import ExitCode, UsageError
from pgdyno.messages import Message, messages_json

if TYPE_CHECKING:
    from pgdyno.analyse.gate import Gate
    from pgdyno.records.promise import Promise
    from pgdyno.report.answers.gate_export import Required

_PERCENT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*%\s*")


def compare(
    first: Annotated[
        str,
        typer.Argument(
            metavar="RUN", help="Baseline, or the run whose arms to compare.", autocompletion=options.complete_runs
        ),
    ],
    second: Annotated[
        str | None,
        typer.Argument(metavar="OTHER", help="Run to compare with the baseline.", autocompletion=options.complete_runs),
    ] = None,
    by: options.By = None,
    base: options.Base = None,
    metric: options.Metric = None,
    floor_from: options.Floor = None,
    noise_floor: Annotated[
        bool, typer.Option("--noise-floor", help="Measure the noise floor from an A/A run.")
    ] = False,
    force: options.Force = False,
    price: options.Price = None,
    runs: options.Runs = options.DEFAULT_RUNS,
    json: options.Json = False,
) -> ExitCode:
    """Compare two runs, or the arms of one run.

    Prints the verdict, the difference and its interval. Arms differ by target, version, setting or parameter. Other
    differences are listed first. Exits with 12, with the reason, if the audit finds a run invalid or if the runs are
    not comparable.
    """
    from pgdyno.commands.comparison import print_comparisons as show
    from pgdyno.commands.comparison.compared_runs import Compared, ComparedRuns
    from pgdyno.console import Console
    from pgdyno.report.answers.refusal import reasons_json
    from pgdyno.safe_output import print_json

    if noise_floor and (second is not None or floor_from is not None):
        raise UsageError("--noise-floor takes one run", hint="pgdyno compare RUN --noise-floor")
    what = Compared(first, second, runs, metric, by, base, floor_from, force, price)
    compared = ComparedRuns.with_trials(what)
    reasons = compared.reasons()
    if reasons and not force:
        show.print_refusal(reasons, json=json)
        return ExitCode.INVALID
    if noise_floor:
        floors = compared.noise_floors()
        show.print_noise(floors, reasons, json=json)
        return ExitCode.INVALID if any(each.refusal is not None for each in floors) else ExitCode.OK
    comparisons = compared.comparisons()
    notes = compared.notes()
    if json:
        found = {
            **messages_json("notes", notes),
            "removed": compared.removed_json(),
            "comparisons": [show.comparison_with_prices(each, compared) for each in comparisons],
            "query_plans": [asdict(each) for each in compared.changed_plans()],
        }
        print_json({"invalid": reasons_json(reasons), **found}, indent=2)
        return ExitCode.OK
    show.print_comparisons(comparisons, reasons, list(map(str, notes)), Console(), compared)
    return ExitCode.OK


def gate(
    baseline: Annotated[
        str,
        typer.Argument(
            metavar="BASELINE",
            help="Baseline run; with --by, the run with both arms.",
            autocompletion=options.complete_runs,
        ),
    ],
    candidate: Annotated[
        str | None, typer.Argument(metavar="CANDIDATE", help="Run to judge.", autocompletion=options.complete_runs)
    ] = None,
    max_regression: Annotated[
        str, typer.Option("--max-regression", metavar="PERCENT", help="Largest allowed regression.")
    ] = "3%",
    require: Annotated[
        list[str] | None,
        typer.Option(metavar="PROMISE", help='What the candidate must keep, such as "p99 < 20ms". Repeatable.'),
    ] = None,
    by: options.By = None,
    base: options.Base = None,
    metric: options.Metric = None,
    floor_from: options.Floor = None,
    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="Write JUnit XML to this file.")] = None,
    md: Annotated[Path | None, typer.Option(metavar="FILE", help="Write Markdown to this file.")] = None,
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Measure a regression again on fresh instances before failing.")
    ] = False,
    allow_inconclusive: Annotated[
        bool,
        typer.Option(
            "--allow-inconclusive", help="Pass if undecided, unless twice the limit would probably be missed."
        ),
    ] = False,
    force: options.Force = False,
    runs: options.Runs = options.DEFAULT_RUNS,
    json: options.Json = False,
) -> ExitCode:
    """Fail CI if a candidate is slower than allowed.

    Exits with 0 if the candidate is not slower than allowed, with 10 if it is, with 13 if it breaks a promise, and with
    11 if that is undecided. Exits with 14 if the baseline, measured twice, differs from itself, and with 12, without a
    verdict, if the audit finds a run invalid or if the runs are not comparable.
    """
    from pgdyno.analyse.gate import GateVerdict
    from pgdyno.analyse.gate import gate as judge
    from pgdyno.analyse.noise_grade import grade_against_none
    from pgdyno.commands.comparison import print_comparisons as show
    from pgdyno.commands.comparison.compared_runs import Compared, ComparedRuns
    from pgdyno.commands.support.report_files import check_report_file, raise_first, try_write_report, write_report_file
    from pgdyno.report.answers.gate_export import gate_json, gate_junit, gate_markdown
    from pgdyno.report.answers.noise import noise_json
    from pgdyno.report.answers.refusal import reason_notes, reasons_json, refused_junit, refused_markdown
    from pgdyno.safe_output import print_json
    from pgdyno.store.find_runs import LATEST, find_path, refuse_outdated

    allowed = _ratio(max_regression)
    promises = _promises(require or [])
    for path in (junit, md):
        if path is not None:
            check_report_file(path)
    if LATEST in (baseline, candidate):
        refuse_outdated(find_path(LATEST, runs))
    what = Compared(baseline, candidate, runs, metric, by, base, floor_from, force)
    compared = ComparedRuns.with_trials(what)
    reasons = compared.reasons()
    if reasons and not force:
        for path, refused in ((junit, refused_junit), (md, refused_markdown)):
            if path is not None:
                write_report_file(path, refused(reasons))
        show.print_refusal(reasons, json=json)
        return ExitCode.INVALID
    # every output of a forced comparison names the reasons against it
    forced = reason_notes(reasons)
    all_arms = [replace(arms, notes=(*forced, *arms.notes)) for arms in compared.arms()]
    notes = compared.notes()
    if len(all_arms) != 1:
        names = ", ".join([all_arms[0].base, *(arms.other for arms in all_arms)])
        raise UsageError(
            f"a gate compares one baseline with one candidate, not {names}", hint="gate two runs, or two targets"
        )
    floor = compared.floor_ratio()
    judged = judge(all_arms[0], allowed)
    if confirm and judged.verdict is GateVerdict.REGRESSION:
        # it starts servers, which a gate of stored runs does not need
        from pgdyno.commands.comparison.gate_confirmation import confirm_gate

        found_again = confirm_gate(judged, what, compared, json=json)
        judged = found_again.judged
        notes += found_again.notes
    required = compared.judged_promises(all_arms[0], promises)
    code = _exit_code(judged, required, allow_inconclusive, notes)
    notes += _floor_above(allowed, floor)
    files = ((junit, gate_junit), (md, gate_markdown))
    errors = [try_write_report(path, text(judged, notes, required)) for path, text in files if path is not None]
    if json:
        found = {"invalid": reasons_json(reasons), **messages_json("notes", notes), "removed": compared.removed_json()}
        noise = noise_json(grade_against_none(judged.comparison))
        print_json({**found, **gate_json(judged, required), "noise": noise}, indent=2)
    else:
        show.print_gate(judged, notes, required)
    raise_first(errors)
    return code


def _ratio(text: str) -> float:
    match = _PERCENT.fullmatch(text)
    if match is None or not 0 < float(match[1]) < 100:
        raise UsageError(f"{text!r} is not a limit", hint="write a percentage, such as 3%")
    return float(match[1]) / 100


def _promises(texts: list[str]) -> "list[Promise]":
    from pgdyno.records.promise import parse_promise

    found = []
    for text in texts:
        try:
            found.append(parse_promise(text))
        except ValueError as error:
            message, hint = getattr(error, "message", str(error)), getattr(error, "hint", None)
            raise UsageError(f"--require: {message}", hint=hint) from error
    return found


def _exit_code(judged: "Gate", required: "Required", allow_inconclusive: bool, notes: list[Message]) -> ExitCode:
    """Return the code, and note it if the gate is too weak to pass undecided."""
    from pgdyno.analyse.gate import LEAST_POWER, GateVerdict
    from pgdyno.report.answers.gate_export import gate_verdict
    from pgdyno.report.answers.promises import Verdict

    codes = {
        GateVerdict.OK: ExitCode.OK,
        GateVerdict.PROMISE_BROKEN: ExitCode.PROMISE_BROKEN,
        GateVerdict.REGRESSION: ExitCode.REGRESSION,
        GateVerdict.UNDECIDABLE: ExitCode.UNDECIDABLE,
    }
    verdict = gate_verdict(judged, required)
    if verdict is not GateVerdict.INCONCLUSIVE:
        return codes[verdict]
    if judged.verdict is GateVerdict.OK or any(each.verdict is Verdict.UNKNOWN for each in required.judged):
        # to pass undecided is for differences, whose power is known
        return ExitCode.INCONCLUSIVE
    if allow_inconclusive and judged.power >= LEAST_POWER:
        return ExitCode.OK
    if allow_inconclusive:
        notes.append(
            Message(
                "gate-too-weak",
                "an inconclusive gate may pass only if it finds twice the limit with a chance of {least:.0%} or more",
                least=LEAST_POWER,
            )
        )
    return ExitCode.INCONCLUSIVE


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
