"""`pgdyno compare`, `gate`, `analyse`, `audit` and `history`: arguments in, one function a command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pgdyno.commands.shell.options import (
    DEFAULT_RUNS,
    BaseOption,
    ByOption,
    ClusterOption,
    ComparedOption,
    FloorOption,
    ForceOption,
    JsonOption,
    MetricOption,
    PriceOption,
    RunArgument,
    RunsArgument,
    RunsOption,
)


def compare(
    first: Annotated[str, typer.Argument(metavar="RUN", help="The baseline, or the run whose arms are compared.")],
    second: Annotated[str | None, typer.Argument(metavar="OTHER", help="The run that is set beside it.")] = None,
    by: ByOption = None,
    base: BaseOption = None,
    metric: ComparedOption = None,
    floor_from: FloorOption = None,
    noise_floor: Annotated[
        bool, typer.Option("--noise-floor", help="Of an A/A run: how much two equal arms differ here.")
    ] = False,
    force: ForceOption = False,
    price: PriceOption = None,
    runs: RunsOption = DEFAULT_RUNS,
    json: JsonOption = False,
) -> None:
    """Compare two runs, or targets within one.

    Verdict, difference and interval, also of versions, settings and parameters within one run. The first line
    names what else differs. Exits with 12, and says why, where the audit finds the figures of a run invalid or
    two runs did not measure the same.
    """
    from pgdyno.commands.compare import compare_runs
    from pgdyno.commands.compared_runs import Compared

    what = Compared(first, second, runs, metric, by, base, floor_from, force, price)
    raise typer.Exit(compare_runs(what, noise=noise_floor, json=json))


def gate(
    baseline: Annotated[str, typer.Argument(metavar="BASELINE", help="A run; with --by, the run that has both.")],
    candidate: Annotated[str | None, typer.Argument(metavar="CANDIDATE", help="The run that is judged.")] = None,
    max_regression: Annotated[
        str, typer.Option("--max-regression", metavar="PERCENT", help="How much worse it may be.")
    ] = "3%",
    by: ByOption = None,
    base: BaseOption = None,
    metric: ComparedOption = None,
    floor_from: FloorOption = None,
    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="Write JUnit XML.")] = None,
    md: Annotated[Path | None, typer.Option(metavar="FILE", help="Write Markdown.")] = None,
    force: ForceOption = False,
    runs: RunsOption = DEFAULT_RUNS,
    json: JsonOption = False,
) -> None:
    """Judge a candidate for CI.

    Exits with 0 when it is no slower than allowed, with 10 when it is, with 11 when that is unclear. Exits with
    12, and judges nothing, where the audit finds the figures of a run invalid or two runs did not measure the
    same.
    """
    from pgdyno.commands.compare import run_gate
    from pgdyno.commands.compared_runs import Compared

    what = Compared(baseline, candidate, runs, metric, by, base, floor_from, force)
    raise typer.Exit(run_gate(what, max_regression, junit=junit, md=md, json=json))


def analyse(
    named: RunsArgument = None,
    price: PriceOption = None,
    latency: Annotated[
        str | None, typer.Option(metavar="TARGET", help='The capacity at a latency target, such as "p99 < 10ms".')
    ] = None,
    runs: RunsOption = DEFAULT_RUNS,
    cluster: ClusterOption = None,
    json: JsonOption = False,
) -> None:
    """Say how steady trials were, how they scale.

    Also where they dipped, and what targets cost. Of several runs each by itself. A folder of runs is all of
    them, here or at s3://bucket/folder.
    """
    from pgdyno.commands.analyse import analyse_stored

    what = named or ["latest"]
    raise typer.Exit(analyse_stored(what, runs, price, latency, json=json, cluster=cluster or []))


def audit(run: RunArgument = "latest", runs: RunsOption = DEFAULT_RUNS, json: JsonOption = False) -> None:
    """Say whether a run's figures may be believed.

    Each finding has its evidence; exits with 12 when one is invalid.
    """
    from pgdyno.commands.audit import audit_run

    raise typer.Exit(audit_run(run, runs, json=json))


def history(
    runs: Annotated[Path, typer.Argument(metavar="DIR", envvar="PGDYNO_RUNS", help="Folder of run folders.")] = (
        DEFAULT_RUNS
    ),
    metric: MetricOption = "tps",
    target: Annotated[str | None, typer.Option(metavar="NAME", help="Only trials of this target.")] = None,
    workload: Annotated[str | None, typer.Option(metavar="NAME", help="Only runs of this workload.")] = None,
    json: JsonOption = False,
) -> None:
    """Follow the same points over many runs.

    Says where their level changed.
    """
    from pgdyno.analyse.metric import Metric
    from pgdyno.commands.history import show_history

    show_history(runs, Metric(metric), target, workload, json=json)
