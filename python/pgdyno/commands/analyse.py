"""`pgdyno analyse` and `pgdyno audit`, of one run or of each of many."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.text import Text

from pgdyno.analyse.price import PriceList
from pgdyno.audit import Finding, Severity, audit, worst
from pgdyno.commands.support.cluster_and_generator_hosts import Unread, each_run, over, say_unread
from pgdyno.commands.support.report_files import read_prices
from pgdyno.console import Console
from pgdyno.errors import EngineError, ExitCode, UsageError
from pgdyno.generators.parallel_map import Lost
from pgdyno.records.price import LatencyLimit, latency_limit
from pgdyno.report.analysis import analyse_run, analysis_json, analysis_lines
from pgdyno.report.report_content import digest
from pgdyno.report.terminal.published import published_lines
from pgdyno.report.terminal.text_drawing import wrapped
from pgdyno.safe_output import json_text, print_json
from pgdyno.store import find_run, load_run
from pgdyno.store.find_runs import named_runs
from pgdyno.store.object_storage.runs import SUMMARIES, open_run
from pgdyno.units import counted


@dataclass(frozen=True, slots=True)
class Asked:
    """What `pgdyno analyse` computes for each run."""

    prices: PriceList | None
    latency: LatencyLimit | None
    json: bool


def analyse_stored(
    named: Sequence[str],
    runs: Path,
    price: Path | None,
    latency: str | None,
    *,
    json: bool,
    cluster: Sequence[str] = (),
) -> ExitCode:
    """Prints the analysis of each run. Raises PgdynoError.

    Of several runs, unreadable ones are reported after the others; the exit code is that of the first of them.
    """
    prices = None if price is None else read_prices(price)
    try:
        limit = None if latency is None else latency_limit(latency)
    except ValueError as error:
        raise UsageError(f"--latency: {error}") from error
    found = named_runs(named, runs)
    work = partial(analysed, Asked(prices, limit, json))
    with over(cluster) as way:
        if not found.is_one:
            return _print_all(each_run(way, work, found.places), json=json)
        (said,) = way(work, found.places)
        if isinstance(said, Lost):
            raise EngineError(f"cannot analyse {found.places[0]}: {said.why}")
    if json:
        print_json(said, indent=2)
    else:
        _print(said)
    return ExitCode.OK


def analysed(asked: Asked, place: str) -> Any:  # noqa: ANN401 - a JSON value, or lines
    """Returns the analysis of the run at `place` as JSON or as lines. Raises StoreError."""
    with open_run(place, SUMMARIES) as folder:
        data = load_run(folder)
        found = analyse_run(data, asked.prices, asked.latency)
        if asked.json:
            return analysis_json(found)
        return [*analysis_lines(found), *published_lines(digest(data))]


def _print(lines: Sequence[str], indent: str = "") -> None:
    console = Console()
    for line in lines:
        console.print(f"{indent}{line}")


def _print_all(found: Iterator[tuple[str, Any]], *, json: bool) -> ExitCode:
    console = Console(soft_wrap=True)
    unread: list[Unread] = []
    count = 0
    if json:
        print('{"runs": [', end="")
    for place, said in found:
        if isinstance(said, Unread):
            unread.append(said)
            continue
        count += 1
        if json:
            one = json_text({"run": place, "analysis": said})
            print(",\n" if count > 1 else "\n", one, sep="", end="")
            continue
        console.print(place, style="bold")
        _print(said, "  ")
    if json:
        left_out = [{"run": each.place, "reason": each.message, "hint": each.hint} for each in unread]
        print(f'\n], "unread": {json_text(left_out)}}}')
    else:
        console.print(f"{counted(count, 'run')} analysed" + (f", {len(unread)} not" if unread else ""))
    say_unread(unread)
    return unread[0].exit_code if unread else ExitCode.OK


EVIDENCE_SHOWN = 6
NARROWEST = 40
"""Columns of prose in terminals that are narrower still."""
STYLES = {Severity.INVALID: "bold red", Severity.CAUTION: "yellow", Severity.NOTE: "dim"}


def audit_run(run: str, runs: Path, *, json: bool) -> ExitCode:
    """Prints the findings about a run. Raises StoreError and UsageError."""
    data = load_run(find_run(run, runs))
    findings = audit(data)
    if json:
        found = [finding.model_dump(mode="json") for finding in findings]
        print_json(found, indent=2)
    else:
        imported = data.manifest.imported is not None
        console = Console()
        with console.paged():
            _print_findings(data.manifest.run, findings, console, imported=imported)
    return ExitCode.INVALID if worst(findings) is Severity.INVALID else ExitCode.OK


def _print_findings(run: str, findings: Sequence[Finding], console: Console, *, imported: bool) -> None:
    checked = [finding for finding in findings if finding.checked]
    counts = ", ".join(_counted(sum(each.severity is severity for each in checked), severity) for severity in STYLES)
    console.print(Text(f"{run}: {counts}", "bold"), soft_wrap=True)
    for finding in checked:
        console.print()
        severity = Text(f"{finding.severity}  ", STYLES[finding.severity])
        _print_hanging(severity, f"{finding.rule}: {finding.message}", console)
        for evidence in finding.evidence[:EVIDENCE_SHOWN]:
            figures = ", ".join(f"{name} {_figure(value)}" for name, value in evidence.figures.items())
            _print_hanging(Text("    "), f"{evidence.at}: {figures}", console, "dim")
        if len(finding.evidence) > EVIDENCE_SHOWN:
            _print_hanging(
                Text("    "), f"and {len(finding.evidence) - EVIDENCE_SHOWN} more; --json has all", console, "dim"
            )
        if finding.advice:
            _print_hanging(Text("    "), f"advice: {finding.advice}", console)
    unchecked = [finding for finding in findings if not finding.checked]
    if unchecked:
        console.print()
    if unchecked and imported:
        # imported documents lack the input of most rules, for the same reason: one line names them all
        rules = ", ".join(finding.rule for finding in unchecked)
        _print_hanging(
            Text(), f"not checked, because the source lacks the input (--json names it): {rules}", console, "dim"
        )
        return
    for finding in unchecked:
        _print_hanging(Text(), f"{finding.rule}: {finding.message}", console, "dim")


def _print_hanging(before: Text, text: str, console: Console, style: str = "") -> None:
    """Prints `text` after `before`, further lines below the start of `text`; a file or a pipe gets one line."""
    lines = wrapped(text, max(console.room - before.cell_len, NARROWEST))
    for at, line in enumerate(lines):
        console.print(Text.assemble(before if at == 0 else " " * before.cell_len, (line, style)), soft_wrap=True)


def _counted(number: int, severity: Severity) -> str:
    return f"{number} invalid" if severity is Severity.INVALID else counted(number, severity)


def _figure(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:,.10g}"
