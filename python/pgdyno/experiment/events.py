"""Events that the plan makes happen during a trial, and the checks that follow them."""

from __future__ import annotations

from pathlib import Path

from pgdyno.experiment.leftovers import sessions_name
from pgdyno.experiment.stage import stage
from pgdyno.plan import LoadedPlan, Plan, PlannedTrial
from pgdyno.records import LedgerRecord, Manifest, Stage
from pgdyno.run import Injector, TrialResult, check_ledger, pages
from pgdyno.targets import Acts, Server, wait_accepting


def injector_for(loaded: LoadedPlan, server: Server, log: Path) -> Injector:
    """Return what makes the plan's events happen to `server`; the output of their commands goes to `log`."""
    return Injector(loaded.plan.event, Acts(server, loaded.folder, log))


def clients_environment(plan: Plan, manifest: Manifest, trial: PlannedTrial, server: Server) -> dict[str, str]:
    """Return the variables with which the load of `trial` finds `server`, and a replica that takes over from it."""
    promotes = any(event.name == "promote" for event in plan.event)
    environment = server.failover_environment() if promotes else server.environment()
    return {**environment, "PGAPPNAME": sessions_name(manifest, trial)}


def settle(plan: Plan, server: Server, result: TrialResult) -> LedgerRecord | None:
    """Wait for a server that went down in the trial, and compare the clients' ledger with its rows.

    Raises StageFailedError.
    """
    ledger = pages(result.events)
    if plan.reconnect() != "off":
        stage(Stage.VERIFY, lambda: wait_accepting(server))
    if ledger is None:
        return None
    with stage(Stage.VERIFY, server.connect) as connection:
        return stage(Stage.VERIFY, lambda: check_ledger(ledger, connection))
