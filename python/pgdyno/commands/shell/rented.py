"""`pgdyno target` and `reap`: arguments in, one function a command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pgdyno.commands.shell.help import Command, group
from pgdyno.commands.shell.options import DEFAULT_RUNS, JsonOption, MaxCostOption, PlanArgument, SetOption, YesOption
from pgdyno.registry import kinds_that_are

if TYPE_CHECKING:
    SelftestKind = str
else:
    SelftestKind = Literal[kinds_that_are("rented")]

app = group("Rent servers from Amazon, and remove them.")


@app.command(cls=Command)
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
    """Rent a plan's servers, and leave them up.

    `pgdyno run PLAN` then takes them, and leaves them up, too. Whatever goes wrong, what was made is removed
    again; what is killed, `pgdyno reap` finds.
    """
    from pgdyno.commands.cost import Consent
    from pgdyno.commands.target import up as bring_up

    bring_up(plan, overrides or [], lasts, Consent(yes, max_cost))


@app.command(cls=Command)
def status(plan: PlanArgument, overrides: SetOption = None, json: JsonOption = False) -> None:
    """Say which servers of a plan are up.

    Those that this machine rented, as Amazon sees them, and until when. `pgdyno reap --all --look` has others.
    """
    from pgdyno.commands.target import status as show_status

    show_status(plan, overrides or [], json=json)


@app.command(cls=Command)
def down(plan: PlanArgument, overrides: SetOption = None) -> None:
    """Remove a plan's servers.

    With all that belongs to them; exits with 4 if something is left.
    """
    from pgdyno.commands.target import down as bring_down

    raise typer.Exit(bring_down(plan, overrides or []))


@app.command(cls=Command)
def policy() -> None:
    """Print the permissions that all this needs.

    The least, as a policy for an identity at Amazon (IAM).
    """
    from pgdyno.commands.target import print_policy

    print_policy()


@app.command(cls=Command)
def selftest(
    kind: Annotated[SelftestKind, typer.Option(help="What is rented.")] = "rds",
    version: Annotated[str, typer.Option(metavar="VERSION", help="Of PostgreSQL.")] = "17",
    instance: Annotated[
        str | None,
        typer.Option(
            metavar="CLASS",
            help="Its class or type.  [default: db.t4g.micro, of Aurora db.t4g.medium, of EC2 t4g.micro]",
        ),
    ] = None,
    region: Annotated[str | None, typer.Option(metavar="REGION", help="Where.  [default: the configured one]")] = None,
    tls_root: Annotated[
        str | None,
        typer.Option(
            "--tls-root", metavar="FILE", help="Certificates to check the server's with.  [default: Amazon's, fetched]"
        ),
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
    runs: Annotated[Path, typer.Option(metavar="DIR", help="Where the trial's run is kept.")] = DEFAULT_RUNS,
    yes: YesOption = False,
    max_cost: MaxCostOption = None,
) -> None:
    """Try an account at Amazon, for some cents.

    The smallest server and a generator are rented, all that a run needs of them is tried, and they are removed:
    half an hour. A line a check, with its reason; docs/guides/aws.md lists them. Exits with 4 if something is
    wrong or left.
    """
    from pgdyno.commands.cost import Consent
    from pgdyno.commands.selftest import keys_of
    from pgdyno.commands.selftest import selftest as try_out
    from pgdyno.targets.provider import Tried

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
    """Remove what runs left behind at Amazon.

    It is found by pgdyno's journal and by its tags. Doing it twice does no harm. Prints what is left, and exits
    with 4 if something is.
    """
    from pgdyno.commands.reap import Asked
    from pgdyno.commands.reap import reap as take

    raise typer.Exit(take(Asked(run, all_, expired, tuple(regions or ())), look=look))
