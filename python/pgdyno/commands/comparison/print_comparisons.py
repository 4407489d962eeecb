"""What `pgdyno compare` and `pgdyno gate` print."""

from collections.abc import Sequence
from dataclasses import asdict, replace

from rich.cells import cell_len
from rich.text import Text

from pgdyno.analyse.comparison import Comparison
from pgdyno.analyse.gate import Gate, GateVerdict
from pgdyno.analyse.noise_floor import NoiseFloor
from pgdyno.commands.comparison.compared_runs import ComparedRuns
from pgdyno.console import Console
from pgdyno.messages import Message
from pgdyno.report.answers.comparison import comparison_lines, confounded_line, noise_blocks, stopping_line
from pgdyno.report.answers.comparison_export import comparison_json, noise_json
from pgdyno.report.answers.gate_export import Required, gate_lines, gate_verdict, gate_verdict_words, power_line
from pgdyno.report.answers.noise import gate_noise
from pgdyno.report.answers.refusal import Reason, reason_lines, reasons_json, refusal_headline, refusal_lines
from pgdyno.report.costs import price_basis_line, price_comparison_lines
from pgdyno.report.sections.figures.comparison import compared_table
from pgdyno.report.sections.statement_tables import plan_tables
from pgdyno.report.terminal.block_lines import block_lines
from pgdyno.report.terminal.summary_file import Layout, print_lines
from pgdyno.report.terminal.text_drawing import wrap_text
from pgdyno.safe_output import print_json

NARROWEST, WIDEST = 60, 120


def print_comparisons(
    comparisons: Sequence[Comparison],
    reasons: Sequence[Reason],
    notes: Sequence[str],
    console: Console,
    runs: ComparedRuns | None = None,
) -> None:
    """Print `comparisons` with reasons against them; with `runs`, also what throughput costs and plans that differ."""
    _print_reasons(reasons, console)
    for at, comparison in enumerate(comparisons):
        _print_comparison(comparison, console, first=at == 0, struck=bool(reasons))
        prices = [] if runs is None else runs.prices(comparison)
        for line in price_comparison_lines(comparison.base, comparison.other, prices):
            console.print(line, soft_wrap=True)
        lists = None if runs is None else runs.price_lists(comparison)
        if lists is not None:
            _print_wrapped(price_basis_line(*lists), console)
    if runs is not None:
        print_lines(block_lines(plan_tables(runs.changed_plans()), _layout(console)), console)
    warnings = (str(warning) for each in comparisons for warning in each.warnings)
    _print_notes([*warnings, *notes], console, _confounders(comparisons))


def comparison_with_prices(of: Comparison, runs: ComparedRuns) -> dict[str, object]:
    lists = runs.price_lists(of)
    bases = [each.model_dump(mode="json", exclude={"target", "latency"}) for each in lists or ()]
    return {**comparison_json(of), "prices": [asdict(each) for each in runs.prices(of)], "price_lists": bases}


def print_refusal(reasons: Sequence[Reason], *, json: bool) -> None:
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
    width = _layout(console).width
    confounded = confounded_line(comparison)
    if confounded is not None:
        _print_wrapped(confounded, console, "bold yellow", width)
    for at, line in enumerate(comparison_lines(comparison)):
        style = ("strike" if struck else "bold") if at == 0 else ""
        # terminals that cannot strike through still show the lines above
        _print_wrapped(line, console, style, width)
    if comparison.points:
        table = replace(compared_table(comparison, plots=True), caption="")
        print_lines(block_lines([table], _layout(console)), console)


def _layout(console: Console) -> Layout:
    return Layout(min(max(console.width, NARROWEST), WIDEST), Layout.for_console(console).unicode)


def print_noise(floors: Sequence[NoiseFloor], reasons: Sequence[Reason], *, json: bool) -> None:
    if json:
        print_json([noise_json(each) for each in floors], indent=2)
        return
    console = Console()
    _print_reasons(reasons, console)
    for each in floors:
        for at, block in enumerate(noise_blocks(each)):
            if isinstance(block, str):
                _print_wrapped(block, console, "bold" if at == 0 else "")
            else:
                print_lines([*block_lines([block], _layout(console)), Text("")], console)
    _print_notes([str(warning) for each in floors for warning in each.warnings], console)


def print_gate(judged: Gate, notes: Sequence[Message], required: Required) -> None:
    console = Console()
    style = {GateVerdict.OK: "green", GateVerdict.REGRESSION: "red", GateVerdict.PROMISE_BROKEN: "red"}
    verdict = gate_verdict(judged, required)
    console.print(f"gate: {gate_verdict_words(judged, required)}", style=style.get(verdict, "yellow"))
    for line in gate_lines(judged, required):
        _print_wrapped(line, console)
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
    for line in wrap_text(text, room) if cell_len(text) > room else [text]:
        console.print(line, style=style, soft_wrap=True)
