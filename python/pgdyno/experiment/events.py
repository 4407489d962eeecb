"""Events in the midst of a trial, and what is looked at behind them."""

from __future__ import annotations

from pathlib import Path

from pgdyno.experiment.leftovers import sessions_name
from pgdyno.experiment.stage import stage
from pgdyno.experiment.state import RunState
from pgdyno.plan import PlannedTrial
from pgdyno.records import LedgerRecord, Stage
from pgdyno.run import Injector, TrialResult, check_ledger, pages
from pgdyno.targets import Acts, Server, wait_accepting


def injector_for(state: RunState, server: Server, log: Path) -> Injector:
    """Makes the plan's events happen to `server`; output of their commands goes to `log`."""
    return Injector(state.plan.event, Acts(server, state.loaded.folder, log))


def clients_environment(state: RunState, trial: PlannedTrial, server: Server) -> dict[str, str]:
    """Variables with which the load of `trial` finds `server`, and a replica that takes over from it."""
    promotes = any(event.name == "promote" for event in state.plan.event)
    environment = server.failover_environment() if promotes else server.environment()
    return {**environment, "PGAPPNAME": sessions_name(state, trial)}


def settle(state: RunState, server: Server, result: TrialResult) -> LedgerRecord | None:
    """Waits for a server that was taken down in the trial, and compares the clients' ledger with what it has.

    Raises StageFailedError.
    """
    heard = pages(result.events)
    if state.plan.reconnect() != "off":
        stage(Stage.VERIFY, lambda: wait_accepting(server))
    if heard is None:
        return None
    with stage(Stage.VERIFY, server.connect) as connection:
        return stage(Stage.VERIFY, lambda: check_ledger(heard, connection))
