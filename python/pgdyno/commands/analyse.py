"""`pgdyno analyse` and `pgdyno audit`, of one run or of each of many."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pgdyno.commands.support import options
from pgdyno.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from pgdyno.records.price import PriceList
    from pgdyno.records.promise import Promise


def analyse(
    named: options.SomeRuns = None,
    price: options.Price = None,
    latency: Annotated[
        str | None,
        typer.Option(metavar="TARGET", help='Report the capacity at a latency target, such as "p99 < 10ms".'),
    ] = None,
    runs: options.Runs = options.DEFAULT_RUNS,
    cluster: options.Cluster = None,
    json: options.Json = False,
) -> ExitCode:
    """Analyse steadiness, scaling, dips and price.

    Each of several runs is analysed separately. A folder, local or at s3://bucket/folder, stands for all runs in it.
    """
    from pgdyno.commands.support.each_run import each_run, executor_for, require_results
    from pgdyno.commands.support.report_files import read_prices
    from pgdyno.records.promise import parse_latency
    from pgdyno.safe_output import print_json
    from pgdyno.store.find_runs import named_runs

    prices = None if price is None else read_prices(price)
    try:
        limit = None if latency is None else parse_latency(latency)
    except ValueError as error:
        raise UsageError(f"--latency: {error}") from error
    found = named_runs(named or ["latest"], runs)
    work = partial(_analyse_place, prices, limit, json)
    with executor_for(cluster or ()) as way:
        if not found.is_one:
            return _print_all(each_run(way, work, found.places), json=json)
        ((said, is_met),) = require_results(way)(work, found.places)
    if json:
        print_json(said, indent=2)
    else:
        _print(said)
    return ExitCode.OK if is_met else ExitCode.REGRESSION


def _analyse_place(prices: "PriceList | None", limit: "Promise | None", json: bool, place: str) -> tuple[Any, bool]:
    """Return the analysis of the run at `place` as JSON or as lines, and whether each curve meets the limit.

    Raises StoreError.
    """
    from pgdyno.report.analysis import analyse_run, analysis_json, analysis_lines, meets_latency
    from pgdyno.store import load_run
    from pgdyno.store.object_storage.runs import SUMMARIES, open_run

    with open_run(place, SUMMARIES) as folder:
        data = load_run(folder)
        found = analyse_run(data, prices, limit)
        said = analysis_json(found) if json else [*analysis_lines(found)]
        return said, limit is None or meets_latency(found)


def _print(lines: Sequence[str], indent: str = "") -> None:
    from pgdyno.console import Console

    console = Console()
    for line in lines:
        console.print(f"{indent}{line}")


def _print_all(found: Iterator[tuple[str, Any]], *, json: bool) -> ExitCode:
    from pgdyno.commands.support.each_run import Unread, say_unread
    from pgdyno.console import Console
    from pgdyno.safe_output import json_text
    from pgdyno.units import quantity

    console = Console(soft_wrap=True)
    unread: list[Unread] = []
    count, are_met = 0, True
    if json:
        print('{"runs": [', end="")
    for place, analysed in found:
        if isinstance(analysed, Unread):
            unread.append(analysed)
            continue
        said, is_met = analysed
        count, are_met = count + 1, are_met and is_met
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
        console.print(f"{quantity(count, 'run')} analysed" + (f", {len(unread)} not" if unread else ""))
    say_unread(unread)
    if unread:
        return unread[0].exit_code
    return ExitCode.OK if are_met else ExitCode.REGRESSION


def audit(
    run: options.Run = "latest", runs: options.Runs = options.DEFAULT_RUNS, json: options.Json = False
) -> ExitCode:
    """Check whether a run's figures are valid.

    Each finding is printed with its evidence. Exits with 12 if a finding is invalid.
    """
    from pgdyno.audit import Severity, worst
    from pgdyno.audit import audit as find_flaws
    from pgdyno.commands.support.print_findings import print_findings
    from pgdyno.console import Console
    from pgdyno.safe_output import print_json
    from pgdyno.store import find_run, load_run

    data = load_run(find_run(run, runs))
    findings = find_flaws(data)
    if json:
        print_json([finding.model_dump(mode="json") for finding in findings], indent=2)
    else:
        console = Console()
        with console.page_output():
            print_findings(data.manifest.run, findings, console, imported=data.manifest.imported is not None)
    return ExitCode.INVALID if worst(findings) is Severity.INVALID else ExitCode.OK
