"""`pgdyno analyse`: steadiness, dips, scalability and price of a run, or of each of many."""

from __future__ import annotations

import json as json_module
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pgdyno.analyse.price import PriceList
from pgdyno.cluster.tasks import Lost
from pgdyno.commands.price_file import read_prices
from pgdyno.commands.spread import Unread, each_run, over, say_unread
from pgdyno.console import Console
from pgdyno.errors import EngineError, ExitCode, UsageError
from pgdyno.records.price import LatencyLimit, latency_limit
from pgdyno.report import numbers
from pgdyno.report.analysis import analyse_run, analysis_json, analysis_lines
from pgdyno.report.digest import digest
from pgdyno.report.published_lines import published_lines
from pgdyno.store import load_run
from pgdyno.store.named import named_runs
from pgdyno.store.remote.runs import SUMMARIES, opened


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
        print(json_module.dumps(said, indent=2))
    else:
        _print(said)
    return ExitCode.OK


def analysed(asked: Asked, place: str) -> Any:  # noqa: ANN401 - a JSON value, or lines
    """Returns the analysis of the run at `place` as JSON or as lines. Raises StoreError."""
    with opened(place, SUMMARIES) as folder:
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
            one = json_module.dumps({"run": place, "analysis": said})
            print(",\n" if count > 1 else "\n", one, sep="", end="")
            continue
        console.print(place, style="bold")
        _print(said, "  ")
    if json:
        left_out = [{"run": each.place, "reason": each.message, "hint": each.hint} for each in unread]
        print(f'\n], "unread": {json_module.dumps(left_out)}}}')
    else:
        console.print(f"{numbers.count(count, 'run')} analysed" + (f", {len(unread)} not" if unread else ""))
    say_unread(unread)
    return unread[0].exit_code if unread else ExitCode.OK
