"""`pgdyno target up | status | down | restore | dead-man | policy | selftest`."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pgdyno.commands.rented.selftest import selftest
from pgdyno.commands.support import options
from pgdyno.errors import ExitCode, TargetError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgdyno.plan import Plan
    from pgdyno.targets.rented.provider import Provider
    from pgdyno.targets.rented.rental import Rental

NOTHING = (
    "this machine has rented no servers that are still up; to list those of other machines: pgdyno reap --all --dry-run"
)

app = options.group("Rent and remove servers at Amazon, and restore your own.")


@app.command(cls=options.Command)
def up(
    plan: options.Plan,
    overrides: options.Set = None,
    lasts: Annotated[
        str,
        typer.Option(
            "--for", metavar="DURATION", help="Time until the rental expires and `pgdyno reap --expired` removes it."
        ),
    ] = "8h",
    yes: options.Yes = False,
    max_cost: options.MaxCost = None,
) -> None:
    """Rent a plan's servers and keep them up.

    `pgdyno run PLAN` then uses them and keeps them up. If an error occurs, pgdyno removes what it created; `pgdyno
    reap` finds what a killed process left.
    """
    from pgdyno.commands.support.rental_cost import Consent, agree
    from pgdyno.console import Console
    from pgdyno.targets import Home
    from pgdyno.targets.rented.rental import take_down
    from pgdyno.units import parse_duration_s

    rented, provider = _rented_plan(plan, overrides or ())
    try:
        lasts_s = parse_duration_s(lasts)
    except ValueError as error:
        raise UsageError(f"--for: {error}") from error
    root = Home.locate().root
    console = Console(stderr=True, soft_wrap=True)
    found = provider.standing_rental(rented, root, console.print)
    if found is not None:
        console.print(f"already up (run {found.journal.run})")
        _say_where(found)
        return
    agree(rented, Consent(yes, max_cost), lasts_s / 3600)
    rental = provider.preflight(rented, root, console.print, lasts_s)
    try:
        rental.up()
    except BaseException:
        console.print("removing the created resources")
        take_down(rental, lambda note: console.print(str(note)))
        raise
    _say_where(rental)


@app.command(cls=options.Command)
def status(plan: options.Plan, overrides: options.Set = None, json: options.Json = False) -> None:
    """Show which servers of a plan are up.

    Lists the servers that this machine rented, their state at Amazon and their expiry. `pgdyno reap --all --dry-run`
    lists others.
    """
    from pgdyno.console import Console
    from pgdyno.safe_output import print_json
    from pgdyno.targets import Home
    from pgdyno.targets.rented.rental_journal import stamp

    rented, provider = _rented_plan(plan, overrides or ())
    root = Home.locate().root
    rentals = [
        (rental.journal, rental.existing_resources()) for rental in provider.left_of(rented, root, lambda _text: None)
    ]
    rows: list[dict[str, Any]] = [
        {
            "run": journal.run,
            "expires": stamp(journal.expires),
            "ready": journal.ready,
            "there": [each.words for each in there],
        }
        for journal, there in rentals
    ]
    if json:
        print_json(rows)
        return
    console = Console(soft_wrap=True)
    if not rows:
        console.print(NOTHING)
    for row in rows:
        console.print(f"run {row['run']}, until {row['expires']}")
        for name, place in row["ready"].items():
            shown = name.removeprefix("@")
            console.print(f"  {shown}: {place['instance']} at {place['host']}, {place['zone']}")
        for words in row["there"]:
            console.print(f"  {words}")
    costs = provider.hourly_costs([each for _, there in rentals for each in there], root)
    if costs is not None:
        console.print(str(costs))


@app.command(cls=options.Command)
def down(plan: options.Plan, overrides: options.Set = None) -> ExitCode:
    """Remove a plan's servers.

    Removes all their resources; exits with 4 if some remain.
    """
    from pgdyno.console import Console
    from pgdyno.targets import Home
    from pgdyno.targets.rented.rental import remove_rental

    rented, provider = _rented_plan(plan, overrides or ())
    console = Console(stderr=True, soft_wrap=True)
    rentals = provider.left_of(rented, Home.locate().root, console.print)
    if not rentals:
        console.print(NOTHING)
    left = 0
    for rental in rentals:
        if not rental.journal.hold():
            raise TargetError(
                f"another pgdyno process uses run {rental.journal.run}", hint="wait until it ends, or stop it"
            )
        left += remove_rental(rental, lambda note: console.print(str(note)))
    if rentals and not left:
        console.print("all resources removed")
    return ExitCode.TARGET if left else ExitCode.OK


@app.command(cls=options.Command)
def restore(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN",
            help="Run whose folder has the only copy of its settings journal.",
            autocompletion=options.complete_runs,
        ),
    ] = None,
    runs: options.Runs = options.DEFAULT_RUNS,
) -> None:
    """Restore settings of your own servers after a killed search.

    Only needed if `pgdyno tune --allow-restart` was killed: otherwise, it restores the settings itself, and so does
    resuming the search. Restarts a server if a setting requires it.
    """
    from pgdyno.experiment.search.settings.attached_server import restore_left
    from pgdyno.experiment.search.settings.settings_journal import COPY, journals, read_journal
    from pgdyno.store import find_run
    from pgdyno.targets import Home, SilentProgress

    home = Home.locate()
    found = journals(home) if run is None else [read_journal(find_run(run, runs).path / COPY)]
    for journal in filter(None, found):
        restore_left(journal, home, SilentProgress())
        print(f"target {journal.name}: {', '.join(journal.originals)} restored, which {journal.run} changed")
    if not any(found):
        print("no search has left changed settings")


@app.command("dead-man", cls=options.Command)
def dead_man(yes: Annotated[bool, typer.Option("--yes", help="Create the role without asking.")] = False) -> None:
    """Create the role that removes expired databases.

    Needed once per account: Amazon's scheduler uses the role to remove databases of pgdyno after their expiry, even if
    pgdyno and its machine are gone. Prints its two policies first; needs IAM permissions that runs do not need.
    """
    from pgdyno.console import Console
    from pgdyno.safe_output import print_json
    from pgdyno.targets.rented.provider import needed_providers

    console = Console(stderr=True, soft_wrap=True)
    for provider in needed_providers():
        role = provider.dead_man_role()
        if role is None:
            continue
        print_json(role.documents, indent=2)
        console.print(f"role {role.name}, for the schedules that remove expired databases")
        if not yes:
            if not console.is_terminal:
                console.print("it was not created: confirm with --yes, or let an administrator create it")
                continue
            if not typer.confirm("Create it?", err=True):
                raise UsageError("no role was created")
        console.print(role.create())


@app.command(cls=options.Command)
def policy() -> None:
    """Print the required IAM permissions.

    The minimum, as an IAM identity policy.
    """
    from pgdyno.safe_output import print_json
    from pgdyno.targets.rented.provider import needed_providers

    policies = [found for provider in needed_providers() if (found := provider.policy())]
    if not policies:
        raise TargetError("no provider needs permissions: no package of a cloud provider is installed")
    for each in policies:
        print_json(each, indent=2)


app.command(cls=options.Command)(selftest)


def _rented_plan(source: str, overrides: "Sequence[str]") -> "tuple[Plan, Provider]":
    from pgdyno.plan import load_plan
    from pgdyno.plan.kinds import TARGET_KINDS
    from pgdyno.plan.targets import RentedTarget
    from pgdyno.targets.rented.provider import provider_of

    loaded = load_plan(source, overrides)
    provider = provider_of(loaded.plan)
    if provider is None:
        kinds = [f'"{kind}"' for kind, schema in TARGET_KINDS.items() if issubclass(schema, RentedTarget)]
        hint = f"only targets of kind {', '.join(kinds[:-1])} and {kinds[-1]} are rented" if kinds else None
        raise UsageError(f"plan {loaded.source} rents no servers", hint=hint)
    return loaded.plan, provider


def _say_where(rental: "Rental") -> None:
    from pgdyno.console import Console
    from pgdyno.targets.rented.rental import is_generator
    from pgdyno.targets.rented.rental_journal import stamp

    def login(place: dict[str, Any]) -> str:
        keys = journal.keys
        given = f"-F {keys / 'config'} -o UserKnownHostsFile={keys / 'known_hosts'} -p {place['ssh_port']}"
        return f"ssh {given} {place['login']}@{place['host']}"

    console = Console(soft_wrap=True)
    journal = rental.journal
    for name, place in journal.ready.items():
        if is_generator(name):
            console.print(f"generator: {place['instance']} in {place['zone']}, {login(place)}")
            continue
        console.print(f"{name}: {rental.connection(name).dsn}")
        over_ssh = f", {login(place)}" if place["login"] else ""
        console.print(f"  {place['instance']} in {place['zone']}, version {place['version']}{over_ssh}")
    console.print(f"up until {stamp(journal.expires)}; to remove them: pgdyno target down")
