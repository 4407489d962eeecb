"""Arguments and options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from pgdyno.errors import UsageError

DEFAULT_RUNS = Path("pgdyno-runs")

PlanArgument = Annotated[str, typer.Argument(metavar="PLAN", help="A plan file, or a name of `pgdyno plan list`.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Override a key of the plan, e.g. trial.duration=5s. Repeatable."),
]
OnOption = Annotated[
    str | None,
    typer.Option(
        "--on",
        metavar="NAME",
        help="Other targets: [on.NAME] of the plan; embedded: a server of this machine; dsn: where PGHOST leads.",
    ),
]


def _here(folder: Path) -> Path:
    if str(folder).startswith("s3:"):
        hint = "name a run there by its whole address; pgdyno copy brings runs there"
        raise UsageError("the folder of runs is one of this machine, not object storage", hint=hint)
    return folder


RunsOption = Annotated[
    Path,
    typer.Option("--runs", metavar="DIR", envvar="PGDYNO_RUNS", help="Folder of run folders.", callback=_here),
]
RunArgument = Annotated[
    str,
    typer.Argument(metavar="RUN", help="A run folder, its name or the beginning of it; `latest` is the last one."),
]
RunsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="RUN", help="Runs, folders of runs, or patterns; here or at s3://bucket/folder."),
]
ClusterOption = Annotated[
    list[str] | None,
    typer.Option(metavar="PLACE", help="Work there: local:3, ssh://host1,host2, ray://address:10001. Repeatable."),
]
BudgetOption = Annotated[
    str | None,
    typer.Option(
        "--budget",
        metavar="TIME",
        help="Make the plan fit into a time such as 20m, and into this machine's memory and disk.",
    ),
]
MetricOption = Annotated[Literal["tps", "p99", "mean"], typer.Option(help="What is compared.")]
ComparedOption = Annotated[
    Literal["tps", "p99", "mean"] | None, typer.Option(help="What is compared.  [default: tps, at a fixed rate p99]")
]
ByOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="What is compared: target, version, settings.NAME, a parameter; of two runs: hardware.",
    ),
]
BaseOption = Annotated[str | None, typer.Option(metavar="VALUE", help="With --by: the baseline.  [default: the first]")]
FloorOption = Annotated[
    str | None, typer.Option("--floor-from", metavar="RUN", help="An A/A run: differences under its noise are none.")
]
ForceOption = Annotated[bool, typer.Option("--force", help="Show it although it is refused; it then says so.")]
PriceOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="What each target costs.  [default: what the plan says]")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before something is paid for.")]
MaxCostOption = Annotated[
    float | None,
    typer.Option("--max-cost", metavar="USD", min=0, help="Rent nothing that costs more, or whose price is unknown."),
]
