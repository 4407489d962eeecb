"""What happens in the midst of each trial, in words."""

from __future__ import annotations

from pgdyno.plan.model import EventSpec, Plan
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
    if plan.trial.ledger:
        lines.append("every transaction that writes leaves a row in pgdyno_ledger, which is checked behind the trial")
    return lines


def _event(event: EventSpec) -> str:
    what = f"the command {event.command}" if event.command is not None else event.name
    lasts = f" for {format_duration(event.lasts)}" if event.lasts is not None else ""
    return f"{what} at {format_duration(event.at)}{lasts}"
