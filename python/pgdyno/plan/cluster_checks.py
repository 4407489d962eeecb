"""What of a plan several generators cannot make yet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pgdyno.errors import Problem
from pgdyno.plan.event_words import DROPPING
from pgdyno.plan.model import EventSpec, TrialSpec, Workload
from pgdyno.plan.problems import Document

KEY, RENTED, COUNT = "generators", "generator", "count"


def check_generators(
    workload: Workload | None, trial: TrialSpec | None, events: Sequence[EventSpec], document: Document
) -> Iterator[Problem]:
    """What is wrong with a plan that names generators, or rents several; nothing of one that does not."""
    rented = document.data.get(RENTED)
    count = rented.get(COUNT) if isinstance(rented, dict) else None
    if not document.data.get(KEY):
        if isinstance(count, int) and count > 1:
            yield from _impossible(workload, trial, events, document, (RENTED, COUNT), "set it to 1")
        return
    if rented not in (None, "here"):
        message, hint = "rented generators stand alone", f'set generator = "here", or leave {KEY} out'
        yield document.problem((KEY,), f"are not possible here: {message}", hint)
    yield from _impossible(workload, trial, events, document, (KEY,), f"leave {KEY} out")


def _impossible(
    workload: Workload | None,
    trial: TrialSpec | None,
    events: Sequence[EventSpec],
    document: Document,
    key: tuple[str, ...],
    otherwise: str,
) -> Iterator[Problem]:
    wrong = []
    if workload is not None and (workload.is_tpcc or workload.is_lua):
        wrong.append(("a Lua script or a workload of the engine's is one generator's", "name scripts"))
    if trial is not None and trial.ledger:
        wrong.append(("a ledger is one generator's", "leave trial.ledger out"))
    reconnects = trial.reconnect if trial is not None else None
    drops = reconnects is None and any(event.name in DROPPING for event in events)
    if drops or reconnects not in (None, "off"):
        wrong.append(("clients that come back are those of one generator", 'set trial.reconnect = "off"'))
    for message, hint in wrong:
        yield document.problem(key, f"several generators are not possible here: {message}", f"{hint}, or {otherwise}")
