"""`pgdyno target` and `reap`: one function per command."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pgdyno.commands.arguments.options import (
    DEFAULT_RUNS,
    Command,
    JsonOption,
    MaxCostOption,
    PlanArgument,
    RunsOption,
    SetOption,
    YesOption,
    complete_runs,
    group,
)
from pgdyno.registry import kinds_that_are

if TYPE_CHECKING:
    SelftestKind = str
else:
    SelftestKind = Literal[kinds_that_are("rented")]

app = group("Rent and remove servers at Amazon, and restore your own.")


@app.command(cls=Command)
def up(
    plan: PlanArgument,
    overrides: SetOption = None,
    lasts: Annotated[
        str,
        typer.Option(
            "--for",
            metavar="DURATION",
            help="Time until the rental expires and `pgdyno reap --expired` removes it.",
        ),
    ] = "8h",
    yes: YesOption = False,
    max_cost: MaxCostOption = None,
) -> None:
    """Rent a plan's servers and keep them up.

    `pgdyno run PLAN` then uses them and keeps them up. If an error occurs, pgdyno removes what it created; `pgdyno
    reap` finds what a killed process left.
    """
    from pgdyno.commands.support.rental_cost import Consent
    from pgdyno.commands.target import up as bring_up

    bring_up(plan, overrides or [], lasts, Consent(yes, max_cost))


@app.command(cls=Command)
def status(plan: PlanArgument, overrides: SetOption = None, json: JsonOption = False) -> None:
    """Show which servers of a plan are up.

    Lists the servers that this machine rented, their state at Amazon and their expiry. `pgdyno reap --all --dry-run`
    lists others.
    """
    from pgdyno.commands.target import status as show_status

    show_status(plan, overrides or [], json=json)


@app.command(cls=Command)
def down(plan: PlanArgument, overrides: SetOption = None) -> None:
    """Remove a plan's servers.

    Removes all their resources; exits with 4 if some remain.
    """
    from pgdyno.commands.target import down as bring_down

    raise typer.Exit(bring_down(plan, overrides or []))


@app.command(cls=Command)
def restore(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN",
            help="Run whose folder has the only copy of its settings journal.",
            autocompletion=complete_runs,
        ),
    ] = None,
    runs: RunsOption = DEFAULT_RUNS,
) -> None:
    """Restore settings of your own servers after a killed search.

    Only needed if `pgdyno tune --allow-restart` was killed: otherwise, it restores the settings itself, and so does
    resuming the search. Restarts a server if a setting requires it.
    """
    from pgdyno.commands.support.restore_settings import restore as restore_settings

    restore_settings(run, runs)


@app.command("dead-man", cls=Command)
def dead_man(yes: Annotated[bool, typer.Option("--yes", help="Create the role without asking.")] = False) -> None:
    """Create the role that removes expired databases.

    Needed once per account: Amazon's scheduler uses the role to remove databases of pgdyno after their expiry, even if
    pgdyno and its machine are gone. Prints its two policies first; needs IAM permissions that runs do not need.
    """
    from pgdyno.commands.target import dead_man as create

    create(yes=yes)


@app.command(cls=Command)
def policy() -> None:
    """Print the required IAM permissions.

    The minimum, as an IAM identity policy.
    """
    from pgdyno.commands.target import print_policy

    print_policy()


@app.command(cls=Command)
def selftest(
    kind: Annotated[SelftestKind, typer.Option(help="Kind of server to rent.")] = "rds",
    version: Annotated[str, typer.Option(metavar="VERSION", help="PostgreSQL version.")] = "17",
    instance: Annotated[
        str | None,
        typer.Option(
            metavar="CLASS",
            help="Instance class or type.  [default: db.t4g.micro; Aurora: db.t4g.medium; EC2: t4g.micro]",
        ),
    ] = None,
    region: Annotated[
        str | None, typer.Option(metavar="REGION", help="AWS region.  [default: the configured one]")
    ] = None,
    tls_root: Annotated[
        str | None,
        typer.Option(
            "--tls-root", metavar="FILE", help="CA certificates for the server.  [default: Amazon's, downloaded]"
        ),
    ] = None,
    keys: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set another key of the target, or generator.KEY. Repeatable."),
    ] = None,
    generator: Annotated[
        str | None,
        typer.Option(
            metavar="TYPE", help="Instance type of the generator.  [default: t3.micro or t4g.micro, as this machine]"
        ),
    ] = None,
    snapshot: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Restore the server from this snapshot, and again after the trial."),
    ] = None,
    duration: Annotated[str, typer.Option(metavar="DURATION", help="Duration of the trial.")] = "1m",
    runs: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the trial's run.")] = DEFAULT_RUNS,
    yes: YesOption = False,
    max_cost: MaxCostOption = None,
) -> None:
    """Test an account at Amazon, for a few cents.

    Rents the smallest server and a generator, tries everything that a run needs, and removes them. Takes half an hour.
    Prints one line per check, with the reason; docs/guides/aws.md lists the checks. Exits with 4 if a check fails or
    resources remain.
    """
    from pgdyno.commands.selftest import keys_of
    from pgdyno.commands.selftest import selftest as try_out
    from pgdyno.commands.support.rental_cost import Consent
    from pgdyno.targets.provider import Tried

    more = keys_of(keys or [])
    tried = Tried(kind, version, instance, region, tls_root, generator, snapshot, duration, more)
    raise typer.Exit(try_out(tried, Consent(yes, max_cost), runs))


def reap(
    run: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="Remove resources of this run.", autocompletion=complete_runs),
    ] = None,
    all_: Annotated[
        bool, typer.Option("--all", help="Remove resources of all runs, including those of other machines.")
    ] = False,
    expired: Annotated[bool, typer.Option("--expired", help="Remove only expired resources.")] = False,
    regions: Annotated[
        list[str] | None,
        typer.Option(
            "--region", metavar="REGION", help="Search this region as well. Repeatable.  [default: the configured one]"
        ),
    ] = None,
    all_regions: Annotated[
        bool, typer.Option("--all-regions", help="Search every region that is enabled for the account.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", "--look", help="List resources without removing them.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Also remove what others created, without asking.")] = False,
) -> None:
    """Remove or give back servers that runs left behind.

    Removes rented resources, and gives back borrowed hosts. Finds them by pgdyno's rental journal and by tags; safe to
    repeat. Asks before it removes what another identity created. Prints what remains, and exits with 4 if something
    does.
    """
    from pgdyno.commands.target import Asked
    from pgdyno.commands.target import reap as take

    raise typer.Exit(take(Asked(run, all_, expired, tuple(regions or ()), all_regions, yes), look=dry_run))
