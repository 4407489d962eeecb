"""`pgdyno target selftest`: checks that a provider's account allows what runs need."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pgdyno.commands.support import options
from pgdyno.errors import ExitCode, TargetError, UsageError
from pgdyno.registry import kinds_that_are

if TYPE_CHECKING:
    from pgdyno.plan import Plan
    from pgdyno.targets.rented.provider import Provider, SelftestTrial

    SelftestKind = str
else:
    SelftestKind = Literal[kinds_that_are("rented")]


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
    runs: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the trial's run.")] = options.DEFAULT_RUNS,
    yes: options.Yes = False,
    max_cost: options.MaxCost = None,
) -> ExitCode:
    """Test an account at Amazon, for a few cents.

    Rents the smallest server and a generator, tries everything that a run needs, and removes them. Takes half an hour.
    Prints one line per check, with the reason; docs/guides/aws.md lists the checks. Exits with 4 if a check fails or
    resources remain.
    """
    from pgdyno.commands.support.rental_cost import Consent, agree
    from pgdyno.console import Console
    from pgdyno.targets import Home
    from pgdyno.targets.rented.provider import Tried

    given = {
        "version": version,
        "instance": instance,
        "region": region,
        "tls_root": tls_root,
        "snapshot": snapshot,
        "generator.instance": generator,
    }
    tried = Tried(kind, {key: value for key, value in given.items() if value} | keys_of(keys or ()), duration)
    consent = Consent(yes, max_cost)
    passed = _provider_of(kind).selftest(
        tried,
        Home.locate().root,
        lambda plan, hours: agree(plan, consent, hours),
        lambda plan: _run_trial(plan, runs),
        Console(stderr=True, soft_wrap=True).print,
    )
    return ExitCode.OK if passed else ExitCode.TARGET


def keys_of(given: Sequence[str]) -> dict[str, object]:
    """Keys with their values, read as TOML; a value that is not TOML is a text. Raises UsageError."""
    # imported here: help texts need no TOML
    import tomllib

    found: dict[str, object] = {}
    for each in given:
        key, equals, value = each.partition("=")
        if not equals:
            raise UsageError(f"--set {each}: there is no value", hint="such as --set 'subnet=\"subnet-0a1b\"'")
        try:
            found[key.strip()] = tomllib.loads(f"value = {value}")["value"]
        except (ValueError, RecursionError):
            found[key.strip()] = value
    return found


def _run_trial(plan: "Plan", runs: Path) -> "SelftestTrial":
    """Run `plan` as `pgdyno run` does, on what is up; the run's folder is kept."""
    from pgdyno.console import Console
    from pgdyno.experiment import run_experiment
    from pgdyno.plan import LoadedPlan
    from pgdyno.report.terminal.progress import PlainView
    from pgdyno.store.cloud_metrics import stored_cloud
    from pgdyno.targets import Use, WhenBusy
    from pgdyno.targets.rented.provider import SelftestTrial

    with PlainView(Console(stderr=True)) as view:
        loaded, use = LoadedPlan(plan, plan.name, "", Path.cwd()), Use(plan.name, WhenBusy.ALONGSIDE)
        finished = run_experiment(loaded, runs, view, use, check_first=False)
    (record,) = finished.records
    return SelftestTrial(record, finished.folder.path, stored_cloud(finished.folder.trials_path / record.slug))


def _provider_of(kind: str) -> "Provider":
    from pgdyno.plan.kinds import TARGET_KINDS
    from pgdyno.plan.targets import RentedTarget
    from pgdyno.targets.rented.provider import provider

    schema = TARGET_KINDS.get(kind)
    found = provider(schema.provider) if schema is not None and issubclass(schema, RentedTarget) else None
    if found is None:
        raise TargetError(f"pgdyno cannot rent targets of kind {kind}: their package is not installed")
    return found
