"""Arguments and options that several commands have, and how their help names them."""

import glob
import os
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperCommand

from pgdyno.errors import UsageError

DEFAULT_RUNS = Path("pgdyno-runs")


def complete_plans(incomplete: str) -> list[str]:
    """Return plans of the catalogue, TOML files and folders that begin with `incomplete`."""
    from pgdyno.plan.reading.plan_files import catalogue

    names = [entry.name for entry in catalogue()] if "/" not in incomplete else []
    return [*(name for name in names if name.startswith(incomplete)), *_paths(incomplete, ".toml")]


def complete_runs(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return runs of the folder of runs, newest first, and folders, that begin with `incomplete`."""
    folder = Path(ctx.params.get("runs") or os.environ.get("PGDYNO_RUNS") or DEFAULT_RUNS)
    try:
        names = sorted((each.name for each in folder.iterdir() if (each / "manifest.json").exists()), reverse=True)
    except OSError:
        names = []
    found = [name for name in ["latest", *names] if name.startswith(incomplete)]
    return found or _paths(incomplete, None)


def _paths(beginning: str, suffix: str | None) -> list[str]:
    found = []
    for each in sorted(glob.glob(glob.escape(beginning) + "*")):  # noqa: PTH207 - keeps "./" as it was typed
        if Path(each).is_dir():
            found.append(each + "/")
        elif suffix is not None and each.endswith(suffix):
            found.append(each)
    return found


_PLAN: Any = typer.Argument(
    metavar="PLAN", help="Plan file, or name from `pgdyno plan list`.", autocompletion=complete_plans
)
Plan = Annotated[str, _PLAN]
OptionalPlan = Annotated[str | None, _PLAN]
ArmSource = Annotated[
    list[str] | None,
    typer.Option("--source", metavar="DIR", help="PostgreSQL's source, which pgdyno builds; twice to compare two."),
]
ArmConfigure = Annotated[
    str | None, typer.Option("--configure", metavar="ARGS", help='Of --source: "--without-icu --with-lz4".')
]
ArmExtension = Annotated[
    list[str] | None,
    typer.Option("--extension", metavar="DIR", help="An extension that pgdyno builds for --bin or --source."),
]
ArmCommit = Annotated[
    list[str] | None,
    typer.Option("--commit", metavar="A,B", help="Commits to compare, of --extension, otherwise of --source."),
]
ArmPatch = Annotated[
    list[str] | None,
    typer.Option("--patch", metavar="none,FILE", help="Patches to compare, likewise; A+B is a series."),
]
Scripts = Annotated[
    list[str] | None,
    typer.Option(
        "--script",
        "-f",
        metavar="FILE",
        help="SQL script in pgbench's language; append @WEIGHT to weight it. Repeatable.",
    ),
]
ArmDsn = Annotated[
    list[str] | None,
    typer.Option("--dsn", metavar="DSN", help="Measure your own server; twice to compare two. No passwords."),
]
ArmVersion = Annotated[
    list[str] | None,
    typer.Option("--version", metavar="VERSION", help="Versions that pgdyno downloads and starts, such as 17,18."),
]
ArmBin = Annotated[
    list[str] | None,
    typer.Option("--bin", metavar="DIR", help="Installed programs that pgdyno starts; twice to compare two."),
]
ArmSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=A,B",
        help=r"Compare these values of a setting (\, is a comma within one); one applies to both arms. Repeatable.",
    ),
]
Pairs = Annotated[
    str, typer.Option("--pairs", metavar="NUM", help="Pairs of trials: at least 6, or a range to stop when decided.")
]
Margin = Annotated[
    str | None,
    typer.Option(
        "--margin",
        metavar="PERCENT",
        help="With a range of pairs: treat differences within this margin as none. [default: 1%]",
    ),
]
Warmup = Annotated[
    str, typer.Option("--warmup", metavar="DURATION", help="Warm-up before each trial, which does not count.")
]
Scale = Annotated[
    int | None,
    typer.Option(
        "--scale",
        "-s",
        metavar="NUM",
        min=1,
        help="Size of pgbench's tables on servers that pgdyno starts.  [default: 10]",
    ),
]
Writes = Annotated[
    bool, typer.Option("--writes", help="Let scripts write on your own server; otherwise, transactions are read-only.")
]
Save = Annotated[
    Path | None, typer.Option("--save", metavar="FILE", help="Write the plan to this file, for `pgdyno run`.")
]
Dsn = Annotated[
    str | None,
    typer.Argument(
        metavar="DSN",
        help="Database, connection string or URI, as for psql. No passwords: use PGPASSWORD or ~/.pgpass.",
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Override a key of the plan, e.g. trial.duration=5s. Repeatable."),
]
AllowRestart = Annotated[
    bool,
    typer.Option(
        "--allow-restart", help="Let a search change the configuration of your own server, restart it and restore it."
    ),
]
On = Annotated[
    str | None,
    typer.Option(
        "--on",
        metavar="NAME",
        help=(
            "Use other targets: those of [on.NAME] in the plan, or embedded (a server on this machine), dsn (the "
            "server at PGHOST), pool (your own host over SSH)."
        ),
    ),
]


def _local_folder(folder: Path) -> Path:
    if str(folder).startswith("s3:"):
        hint = "name runs there by their full address; pgdyno copy uploads runs"
        raise UsageError("the folder of runs must be local, not on object storage", hint=hint)
    return folder


Runs = Annotated[
    Path,
    typer.Option("--runs", metavar="DIR", envvar="PGDYNO_RUNS", help="Folder of run folders.", callback=_local_folder),
]
Run = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="Run folder, its name or a prefix of it; `latest`; `latest~1`, the one before.",
        autocompletion=complete_runs,
    ),
]
SomeRuns = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="RUN",
        help="Runs, folders of runs, or patterns; local or at s3://bucket/folder.",
        autocompletion=complete_runs,
    ),
]
Cluster = Annotated[list[str] | None, typer.Option(metavar="local:N", help="Work in N processes on this machine.")]
Budget = Annotated[
    str | None,
    typer.Option(
        "--budget",
        metavar="DURATION",
        help="Fit the plan into a duration such as 20m, and into this machine's memory and disk.",
    ),
]
MetricName = Literal["tps", "p50", "p99", "mean", "composite", "instructions"]
Metric = Annotated[MetricName | None, typer.Option(help="Metric to compare.  [default: that of the run, mostly tps]")]
By = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Dimension: target, version, settings.NAME, a parameter; for two runs: hardware. Or instructions.",
    ),
]
Base = Annotated[str | None, typer.Option(metavar="VALUE", help="With --by: baseline value.  [default: the first]")]
Floor = Annotated[
    str | None,
    typer.Option(
        "--floor-from",
        metavar="RUN",
        help="A/A run: treat differences within its noise as none.",
        autocompletion=complete_runs,
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Compare despite a refusal; the output names the reasons.")]
Control = Annotated[
    bool, typer.Option("--control", help="Measure the baseline twice in each block, to see whether it equals itself.")
]
Price = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Read each target's price from this file.  [default: prices of the plan]"),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
RunJson = Annotated[
    bool, typer.Option("--json", help='Print no table; the last line is {"run": path, "trials": n, "failed": n}.')
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Rent without asking for confirmation.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait while another pgdyno measures on this host.")]
Alongside = Annotated[
    bool, typer.Option("--alongside", help="Measure while another pgdyno measures; recorded in the run.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Hide progress.")]
NoPreflight = Annotated[bool, typer.Option("--no-preflight", help="Skip the checks of `pgdyno doctor`.")]
Html = Annotated[
    Path | None,
    typer.Option("--html", metavar="FILE", help="Write the HTML report to this file.  [default: in the run folder]"),
]
MaxCost = Annotated[
    float | None,
    typer.Option("--max-cost", metavar="USD", min=0, help="Rent only if the cost is known and at most this."),
]


_LIMITS = {"greater": "must be at least", "less": "must be at most"}
PLAN_KEYS = dict.fromkeys(("-c", "--client", "--clients", "--threads"), "sweep.clients=4") | {
    **dict.fromkeys(("-j", "--jobs", "--workers"), "sweep.workers=2"),
    **dict.fromkeys(("-T", "--time", "--duration"), "trial.duration=60s"),
    **dict.fromkeys(("-R", "--rate"), "sweep.rate=500"),
    **dict.fromkeys(("-s", "--scale"), "workload.scale=10"),
    **dict.fromkeys(("-M", "--protocol"), "sweep.protocol=prepared"),
}
"""Options of pgbench and sysbench, and what they are in a plan."""


class Command(TyperCommand):
    """Formats arguments as manual pages do, `PLAN` and `[RUN]...`; Typer would show Python types."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - of click, or of Typer's copy of it
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            # the words of pydantic, which Typer uses
            error.message = error.message.removeprefix("Value error, ")
            for limit, words in _LIMITS.items():
                error.message = error.message.replace(f"Input should be {limit} than or equal to", words)
            raise
        except Exception as error:
            # NoSuchOption of click, or of Typer's copy of it
            unknown: Any = error if hasattr(error, "possibilities") else None
            has_plan = any(each.metavar == "PATH=VALUE" for each in self.get_params(ctx))
            if unknown is not None and unknown.option_name in PLAN_KEYS and has_plan:
                unknown.message += f"; the plan sets this: --set {PLAN_KEYS[unknown.option_name]}"
                unknown.possibilities = None
            raise

    def invoke(self, ctx: Any) -> None:  # noqa: ANN401 - likewise
        done = super().invoke(ctx)
        # a command with many options is a class, whose fields they are
        code = done() if callable(done) else done
        if code:
            raise typer.Exit(code)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ANN401 - of click, or of Typer's copy of it
        names = ["[OPTIONS]"]
        for each in filter(_is_argument, self.get_params(ctx)):
            name = str(each.metavar) if each.required else f"[{each.metavar}]"
            names.append(name if each.nargs == 1 else f"{name}...")
        return names

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - likewise
        for title, rows in self.tables(ctx):
            with formatter.section(title):
                formatter.write_dl(rows)

    def tables(self, ctx: Any) -> list[tuple[str, list[tuple[str, str]]]]:  # noqa: ANN401 - likewise
        arguments, options = [], []
        for each in self.get_params(ctx):
            shown = each.get_help_record(ctx)
            if shown is None:
                continue
            if _is_argument(each):
                arguments.append((str(each.metavar), shown[1].replace("  [required]", "")))
            else:
                options.append(shown)
        return [(title, rows) for title, rows in (("Arguments", arguments), ("Options", options)) if rows]


def _is_argument(each: Any) -> bool:  # noqa: ANN401 - a parameter of click's
    return bool(each.param_type_name == "argument")


def group(text: str) -> typer.Typer:
    return typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode=None, help=text)
