"""Describes the events of each trial in words."""

from __future__ import annotations

from pgdyno.plan.model import EventSpec, Plan, ReplicaLoad
from pgdyno.units import format_duration


def in_each_trial(plan: Plan) -> list[str]:
    """Yields `in each trial: kill at 30s`, whether clients reconnect, and whether there is a ledger; empty for most
    plans.
    """
    lines = []
    if plan.event:
        lines.append(f"in each trial: {', '.join(_event(event) for event in plan.event)}")
    patience = plan.reconnect()
    if patience == "always":
        lines.append("clients that lose their connection reconnect")
    elif isinstance(patience, float):
        lines.append(f"clients that lose their connection reconnect, or give up after {format_duration(patience)}")
    if plan.replica_load is not None:
        lines.append(_on_replicas(plan.replica_load))
    if plan.trial.ledger:
        lines.append(
            "every transaction that writes inserts a row into pgdyno_ledger, which pgdyno checks after the trial"
        )
    return lines


def _on_replicas(load: ReplicaLoad) -> str:
    clients = f"{load.clients} client{'s' if load.clients != 1 else ''}"
    rate = "" if load.rate is None else f" at {load.rate:g} transactions per second"
    return f"on the replicas at the same time: {', '.join(load.scripts)}, {clients}{rate}, {load.protocol} protocol"


def _event(event: EventSpec) -> str:
    what = f"the command {event.command}" if event.command is not None else event.name
    lasts = f" for {format_duration(event.lasts)}" if event.lasts is not None else ""
    return f"{what} at {format_duration(event.at)}{lasts}"
