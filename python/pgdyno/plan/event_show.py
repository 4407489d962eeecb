"""What happens in the midst of each trial, in words."""

from __future__ import annotations

from pgdyno.plan.model import EventSpec, Plan, ReplicaLoad
from pgdyno.units import format_duration


def in_each_trial(plan: Plan) -> list[str]:
    """`in each trial: kill at 30s`, whether clients come back, whether there is a ledger; nothing for most plans."""
    lines = []
    if plan.event:
        lines.append(f"in each trial: {', '.join(_event(event) for event in plan.event)}")
    patience = plan.reconnect()
    if patience == "always":
        lines.append("clients that lose their connection come back")
    elif isinstance(patience, float):
        lines.append(f"clients that lose their connection come back, or give up after {format_duration(patience)}")
    if plan.replica_load is not None:
        lines.append(_on_replicas(plan.replica_load))
    if plan.trial.ledger:
        lines.append("every transaction that writes leaves a row in pgdyno_ledger, which is checked behind the trial")
    return lines


def _on_replicas(load: ReplicaLoad) -> str:
    clients = f"{load.clients} client{'s' if load.clients != 1 else ''}"
    rate = "" if load.rate is None else f" at {load.rate:g} transactions a second"
    return f"on the replicas meanwhile: {', '.join(load.scripts)}, {clients}{rate}, {load.protocol} protocol"


def _event(event: EventSpec) -> str:
    what = f"the command {event.command}" if event.command is not None else event.name
    lasts = f" for {format_duration(event.lasts)}" if event.lasts is not None else ""
    return f"{what} at {format_duration(event.at)}{lasts}"
