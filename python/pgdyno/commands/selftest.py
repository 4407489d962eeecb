"""`pgdyno target selftest`: checks that a provider's account allows what runs need."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path

from pgdyno.commands.support.rental_cost import Consent, agree
from pgdyno.console import Console
from pgdyno.errors import ExitCode, TargetError, UsageError
from pgdyno.experiment import run_experiment
from pgdyno.plan import LoadedPlan, Plan
from pgdyno.plan.kinds import TARGET_KINDS
from pgdyno.plan.targets import RentedTarget
from pgdyno.report.terminal.progress import PlainView
from pgdyno.store.cloud_metrics import stored_cloud
from pgdyno.targets import Home, Use, WhenBusy
from pgdyno.targets.provider import Provider, SelftestTrial, Tried, provider


def keys_of(given: Sequence[str]) -> dict[str, object]:
    """Keys with their values as TOML has them; what is none is a text. Raises UsageError."""
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


def selftest(tried: Tried, consent: Consent, runs: Path) -> ExitCode:
    """Rents, tries, removes; says how each check went. Raises PgdynoError when nothing could be rented."""
    console = Console(stderr=True, soft_wrap=True)

    def trial(plan: Plan) -> SelftestTrial:
        # as `pgdyno run` does, on what is up; the run's folder is kept
        with PlainView(Console(stderr=True)) as view:
            loaded, use = LoadedPlan(plan, plan.name, "", Path.cwd()), Use(plan.name, WhenBusy.ALONGSIDE)
            finished = run_experiment(loaded, runs, view, use, check_first=False)
        (record,) = finished.records
        told = stored_cloud(finished.folder.trials_path / record.slug)
        return SelftestTrial(record, finished.folder.path, told)

    passed = _provider_of(tried.kind).selftest(
        tried,
        Home.locate().root,
        lambda plan, hours: agree(plan, consent, hours),
        trial,
        console.print,
    )
    return ExitCode.OK if passed else ExitCode.TARGET


def _provider_of(kind: str) -> Provider:
    schema = TARGET_KINDS.get(kind)
    found = provider(schema.provider) if schema is not None and issubclass(schema, RentedTarget) else None
    if found is None:
        raise TargetError(f"pgdyno cannot rent targets of kind {kind}: their package is not installed")
    return found
