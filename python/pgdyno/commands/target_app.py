"""The command line of `pgdyno target` and `pgdyno reap`: arguments in, one function a command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Servers that are rented from Amazon: up, status, down."
)

PlanArgument = Annotated[str, typer.Argument(metavar="PLAN", help="A plan file, or a name of `pgdyno plan list`.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Override a key of the plan. Repeatable."),
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before something is paid for.")]
MaxCostOption = Annotated[
    float | None,
    typer.Option("--max-cost", metavar="USD", min=0, help="Rent nothing that costs more, or whose price is unknown."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


@app.command()
def up(
    plan: PlanArgument,
    overrides: SetOption = None,
    lasts: Annotated[
        str,
        typer.Option(
            "--for", metavar="TIME", help="After so long it has expired, and `pgdyno reap --expired` takes it."
        ),
    ] = "8h",
    yes: YesOption = False,
    max_cost: MaxCostOption = None,
) -> None:
    """Rent a plan's servers, and leave them up: `pgdyno run PLAN` then takes them, and leaves them up, too.

    Whatever goes wrong, what was made is removed again; what is killed, `pgdyno reap` finds.
    """
    from pgdyno.commands.cost import Consent
    from pgdyno.commands.target import up as bring_up

    bring_up(plan, overrides or [], lasts, Consent(yes, max_cost))


@app.command()
def status(plan: PlanArgument, overrides: SetOption = None, json: JsonOption = False) -> None:
    """Say what of a plan's servers there is at Amazon, until when."""
    from pgdyno.commands.target import status as show_status

    show_status(plan, overrides or [], json=json)


@app.command()
def down(plan: PlanArgument, overrides: SetOption = None) -> None:
    """Remove a plan's servers with all that belongs to them; exit with 4 if something is left."""
    from pgdyno.commands.target import down as bring_down

    raise typer.Exit(bring_down(plan, overrides or []))


@app.command()
def policy() -> None:
    """Print the least that an identity at Amazon must be allowed, as a policy."""
    from pgdyno.commands.target import print_policy

    print_policy()


@app.command()
def selftest(
    kind: Annotated[Literal["ec2", "rds", "aurora"], typer.Option(help="What is rented.")] = "rds",
    version: Annotated[str, typer.Option(metavar="VERSION", help="PostgreSQL's.")] = "17",
    instance: Annotated[
        str | None,
        typer.Option(metavar="CLASS", help="[default: db.t4g.micro, of Aurora db.t4g.medium, of EC2 t4g.micro]"),
    ] = None,
    region: Annotated[str | None, typer.Option(metavar="REGION", help="[default: the configured one]")] = None,
    tls_root: Annotated[
        str | None, typer.Option("--tls-root", metavar="FILE", help="Certificates.  [default: Amazon's, fetched]")
    ] = None,
    keys: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Another key of the target, or generator.KEY. Repeatable."),
    ] = None,
    generator: Annotated[
        str | None,
        typer.Option(
            metavar="TYPE", help="Where its load comes from.  [default: t3.micro or t4g.micro, as this machine]"
        ),
    ] = None,
    snapshot: Annotated[
        str | None, typer.Option(metavar="NAME", help="Make the server from it, and once more behind the trial.")
    ] = None,
    duration: Annotated[str, typer.Option(metavar="TIME", help="Of the trial.")] = "1m",
    runs: Annotated[Path, typer.Option(metavar="DIR", help="Where the trial's run is kept.")] = Path("pgdyno-runs"),
    yes: YesOption = False,
    max_cost: MaxCostOption = None,
) -> None:
    """Rent the smallest server and a generator, try all that a run needs of them, remove them: cents, half an hour.

    A line a check, with its reason; docs/guides/aws.md lists them. Exits with 4 if something is wrong or left.
    """
    from pgdyno.commands.cost import Consent
    from pgdyno.commands.selftest import Tried, keys_of
    from pgdyno.commands.selftest import selftest as try_out

    more = keys_of(keys or [])
    tried = Tried(kind, version, instance, region, tls_root, generator, snapshot, duration, more)
    raise typer.Exit(try_out(tried, Consent(yes, max_cost), runs))


def reap(
    run: Annotated[str | None, typer.Option(metavar="RUN", help="What this run made.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="What any run made, of this machine or another.")] = False,
    expired: Annotated[bool, typer.Option("--expired", help="Only what has expired.")] = False,
    regions: Annotated[
        list[str] | None,
        typer.Option("--region", metavar="REGION", help="Look there, too. Repeatable.  [default: the configured one]"),
    ] = None,
    look: Annotated[bool, typer.Option("--look", help="Only list it.")] = False,
) -> None:
    """Remove what pgdyno rented from Amazon and is still there, found by its journal and by its tags.

    Doing it twice does no harm. Prints what is left, and exits with 4 if something is.
    """
    from pgdyno.commands.reap import Asked
    from pgdyno.commands.reap import reap as take

    raise typer.Exit(take(Asked(run, all_, expired, tuple(regions or ())), look=look))
