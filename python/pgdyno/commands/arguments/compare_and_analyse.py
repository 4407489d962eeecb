"""`pgdyno compare`, `gate`, `analyse`, `audit` and `history`: arguments in, one function a command."""

from pathlib import Path
from typing import Annotated

import typer

from pgdyno.commands.arguments.options import (
    DEFAULT_RUNS,
    BaseOption,
    ByOption,
    ClusterOption,
    ComparedOption,
    FloorOption,
    ForceOption,
    JsonOption,
    PriceOption,
    RunArgument,
    RunsArgument,
    RunsOption,
    complete_runs,
)


def compare(
    first: Annotated[
        str,
        typer.Argument(metavar="RUN", help="Baseline, or the run whose arms to compare.", autocompletion=complete_runs),
    ],
    second: Annotated[
        str | None,
        typer.Argument(metavar="OTHER", help="Run to compare with the baseline.", autocompletion=complete_runs),
    ] = None,
    by: ByOption = None,
    base: BaseOption = None,
    metric: ComparedOption = None,
    floor_from: FloorOption = None,
    noise_floor: Annotated[
        bool, typer.Option("--noise-floor", help="Measure the noise floor from an A/A run.")
    ] = False,
    force: ForceOption = False,
    price: PriceOption = None,
    runs: RunsOption = DEFAULT_RUNS,
    json: JsonOption = False,
) -> None:
    """Compare two runs, or the arms of one run.

    Prints the verdict, the difference and its interval. Arms differ by target, version, setting or parameter. Other
    differences are listed first. Exits with 12, with the reason, if the audit finds a run invalid or if the runs are
    not comparable.
    """
    from pgdyno.commands.compare import compare_runs
    from pgdyno.commands.support.compared_runs import Compared

    what = Compared(first, second, runs, metric, by, base, floor_from, force, price)
    raise typer.Exit(compare_runs(what, noise=noise_floor, json=json))


def gate(
    baseline: Annotated[
        str,
        typer.Argument(
            metavar="BASELINE",
            help="Baseline run; with --by, the run with both arms.",
            autocompletion=complete_runs,
        ),
    ],
    candidate: Annotated[
        str | None, typer.Argument(metavar="CANDIDATE", help="Run to judge.", autocompletion=complete_runs)
    ] = None,
    max_regression: Annotated[
        str, typer.Option("--max-regression", metavar="PERCENT", help="Largest allowed regression.")
    ] = "3%",
    by: ByOption = None,
    base: BaseOption = None,
    metric: ComparedOption = None,
    floor_from: FloorOption = None,
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
    force: ForceOption = False,
    runs: RunsOption = DEFAULT_RUNS,
    json: JsonOption = False,
) -> None:
    """Fail CI if a candidate is slower than allowed.

    Exits with 0 if the candidate is not slower than allowed, with 10 if it is, and with 11 if that is undecided. Exits
    with 12, without a verdict, if the audit finds a run invalid or if the runs are not comparable.
    """
    from pgdyno.commands.compare import run_gate
    from pgdyno.commands.support.compared_runs import Compared

    what = Compared(baseline, candidate, runs, metric, by, base, floor_from, force)
    code = run_gate(
        what,
        max_regression,
        junit=junit,
        md=md,
        json=json,
        confirm=confirm,
        allow_inconclusive=allow_inconclusive,
    )
    raise typer.Exit(code)


def analyse(
    named: RunsArgument = None,
    price: PriceOption = None,
    latency: Annotated[
        str | None,
        typer.Option(metavar="TARGET", help='Report the capacity at a latency target, such as "p99 < 10ms".'),
    ] = None,
    runs: RunsOption = DEFAULT_RUNS,
    cluster: ClusterOption = None,
    json: JsonOption = False,
) -> None:
    """Analyse steadiness, scaling, dips and price.

    Each of several runs is analysed separately. A folder, local or at s3://bucket/folder, stands for all runs in it.
    """
    from pgdyno.commands.analyse import analyse_stored

    what = named or ["latest"]
    raise typer.Exit(analyse_stored(what, runs, price, latency, json=json, cluster=cluster or []))


def audit(run: RunArgument = "latest", runs: RunsOption = DEFAULT_RUNS, json: JsonOption = False) -> None:
    """Check whether a run's figures are valid.

    Each finding is printed with its evidence. Exits with 12 if a finding is invalid.
    """
    from pgdyno.commands.analyse import audit_run

    raise typer.Exit(audit_run(run, runs, json=json))


def history(
    runs: Annotated[Path, typer.Argument(metavar="DIR", envvar="PGDYNO_RUNS", help="Folder of run folders.")] = (
        DEFAULT_RUNS
    ),
    metric: ComparedOption = None,
    target: Annotated[str | None, typer.Option(metavar="NAME", help="Show only trials of this target.")] = None,
    workload: Annotated[str | None, typer.Option(metavar="NAME", help="Show only runs of this workload.")] = None,
    json: JsonOption = False,
) -> None:
    """Track points over many runs.

    Reports at which runs their level changed.
    """
    from pgdyno.analyse.pairs import Metric
    from pgdyno.commands.history import show_history

    raise typer.Exit(show_history(runs, Metric(metric) if metric else None, target, workload, json=json))
