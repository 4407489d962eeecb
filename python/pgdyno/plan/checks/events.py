"""Events, the ledger and the search of a plan against its other sections."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pgdyno.effect import BUILTIN_SCRIPTS, Effect, effect_of_name
from pgdyno.errors import Problem
from pgdyno.plan.model import CAPACITY_REPEATS, EventSpec, SearchSpec, TrialSpec, Workload
from pgdyno.plan.optional_sections import DROPPING, ON_PROCESSES
from pgdyno.plan.own_data.psql_reader import SqlFileError, read_statements
from pgdyno.plan.plan_document import Document
from pgdyno.plan.targets import OwnTarget, TargetSpec
from pgdyno.plan.workload import parse_script
from pgdyno.records import Point
from pgdyno.registry import SEARCHES
from pgdyno.units import format_duration

LEDGER_VARIABLE = ":ledger_seq"
LEDGER_ROW = "INSERT INTO pgdyno_ledger (client, seq) VALUES (:client_id, :ledger_seq);"


def check_events(
    events: Sequence[EventSpec],
    trial: TrialSpec | None,
    measured_s: float | None,
    targets: Mapping[str, TargetSpec],
    points: Sequence[Point],
    document: Document,
    folder: Path,
) -> Iterator[Problem]:
    """Yield problems of `events` in a trial of `measured_s` seconds (None: unknown) at `targets`.

    Files are relative to `folder`; `points` are empty if the sweep is invalid.
    """
    for place, event in enumerate(events):
        path = ("event", place)
        yield from _length(event, path, document)
        yield from _check_operation(event, path, points, document, folder)
        end_s = event.at + (event.lasts or 0)
        if measured_s is not None and event.at >= measured_s:
            message = f"is after the trial's end at {format_duration(measured_s)}"
            yield document.problem((*path, "at"), message, "move it forward, or make the trial longer")
        elif measured_s is not None and end_s > measured_s:
            message = f"ends after the trial's end at {format_duration(measured_s)}"
            yield document.problem((*path, "for"), message, "make it shorter or earlier, or the trial longer")
        for name, target in targets.items():
            yield from _check_possible(event, name, target, path, document)
    yield from _after_promote(events, document)
    if trial is not None and trial.reconnect == "off" and any(event.name in DROPPING for event in events):
        message = "is off, and an event closes the connections"
        yield document.problem(("trial", "reconnect"), message, "remove it: clients then reconnect")


def _length(event: EventSpec, path: tuple[str | int, ...], document: Document) -> Iterator[Problem]:
    if event.name == "pause" and event.lasts is None:
        yield document.problem(path, "lacks the duration of the pause", 'such as for = "5s"')
    if event.name != "pause" and event.lasts is not None:
        yield document.problem((*path, "for"), f"applies to a pause, not to a {event.name}", "remove it")


def _check_operation(
    event: EventSpec, path: tuple[str | int, ...], points: Sequence[Point], document: Document, folder: Path
) -> Iterator[Problem]:
    if event.max_rate is not None and event.name != "backup":
        yield document.problem((*path, "max_rate"), f"applies to a backup, not to a {event.name}", "remove it")
    if event.control is not None and any(event.control not in point.variables for point in points):
        hint = f'add sweep.variables.{event.control} = ["with", "without"]'
        yield document.problem((*path, "control"), f"{event.control} is no variable of the sweep", hint)
    for key, sql in (("do", event.sql), ("undo", event.undo)):
        try:
            for statement in read_statements(sql, folder) if sql is not None else ():
                for _ in statement.data:
                    pass
        except SqlFileError as error:
            yield document.problem((*path, key), str(error), error.hint)


def check_until(trial: TrialSpec, document: Document) -> Iterator[Problem]:
    """Yield why the load of `trial` cannot end when it has recovered from its events."""
    if trial.until != "recovered":
        return
    path = ("trial", "until")
    if not document.data.get("event"):
        yield document.problem(path, "needs an event from which the load recovers", "add [[event]]")
    for key in ("phase", "step", "group"):
        if document.data.get(key):
            yield document.problem(path, f"cannot be combined with [[{key}]]", "remove one of them")
    if trial.transactions is not None or trial.order == "duet":
        key = "transactions" if trial.transactions is not None else 'order = "duet"'
        yield document.problem(path, f"cannot be combined with {key}", "give duration, the longest time")


def _after_promote(events: Sequence[EventSpec], document: Document) -> Iterator[Problem]:
    promotes = [event.at for event in events if event.name == "promote"]
    if not promotes:
        return
    first = min(promotes)
    seen = False
    for place, event in enumerate(events):
        if event.name == "promote" and event.at == first and not seen:
            seen = True
            continue
        end_s = event.at + (event.lasts or 0)
        if event.name == "promote" or (event.name in ON_PROCESSES and end_s >= first):
            message = f"is after the promote at {format_duration(first)}, when the old primary no longer exists"
            yield document.problem(("event", place, "do"), message, "remove it, or end it before the promote")


def _check_possible(
    event: EventSpec, name: str, target: TargetSpec, path: tuple[str | int, ...], document: Document
) -> Iterator[Problem]:
    where = (*path, "do")
    if event.name in ON_PROCESSES and not isinstance(target, OwnTarget):
        message = f"is not possible at target {name}: pgdyno does not run that server"
        yield document.problem(where, message, 'use a command of your own: do = { command = "..." }')
    elif event.name == "promote" and not isinstance(target, OwnTarget):
        message = f"is not possible at target {name}: pgdyno does not run that server, nor its replicas"
        yield document.problem(where, message, 'use a command of your own: do = { command = "..." }')
    elif event.name == "promote" and target.is_pooled:
        message = f"is not possible at target {name}: its pooler does not follow the new primary"
        yield document.problem(where, message, "remove the pooler, or the event")
    elif event.name == "promote" and _replicas(target) == 0:
        message = f"is not possible at target {name}: it has no replica"
        yield document.problem(where, message, f"give it one: [target.{name}.replicas] with count = 1")


def _replicas(target: TargetSpec) -> int:
    replicas = getattr(target, "replicas", None)
    return int(getattr(replicas, "count", 0))


def check_ledger(trial: TrialSpec, workload: Workload, document: Document, folder: Path) -> Iterator[Problem]:
    """Require a script that writes to the ledger, if there is one; files are relative to `folder`."""
    if trial.ledger and not any(_writes(text, folder) for text in workload.written_scripts):
        message = "would count nothing: no script inserts a row into the ledger"
        hint = f"use tpcb-like or simple-update, or put this before the end of your transaction: {LEDGER_ROW}"
        yield document.problem(("trial", "ledger"), message, hint)


def _writes(text: str, folder: Path) -> bool:
    try:
        name = parse_script(text).name
        if name in BUILTIN_SCRIPTS:
            return effect_of_name(name) is Effect.WRITES
        return LEDGER_VARIABLE in (folder / name).read_text(encoding="utf-8")
    except (ValueError, OSError):
        return True  # the script's own check reports it


def check_search(
    search: SearchSpec, trial: TrialSpec | None, workload: Workload | None, points: Sequence[Point], document: Document
) -> Iterator[Problem]:
    """Yield problems of `search` over `points`, which are empty if the sweep is invalid."""
    path = ("search",)
    meets_latency = search.kind.meets_latency
    if meets_latency and search.latency is None and document.at((*path, "latency")) is None:
        yield document.problem(path, "lacks the latency target", 'such as latency = "p99 < 10ms"')
    if search.find == "settings":
        if workload is not None and isinstance(search.latency, dict):
            yield from _scripts(search.latency, workload, document)
        return
    if not meets_latency and search.latency is not None:
        names = " or ".join(f'"{name}"' for name, each in SEARCHES.items() if each.meets_latency)
        yield document.problem((*path, "latency"), f"is valid only with find = {names}", "remove it")
    if document.data.get("phase"):
        yield document.problem(path, "cannot be combined with phases", "remove one of them")
    if not meets_latency and trial is not None and trial.most_repeats < 2:
        message = "is 1: one trial does not show the noise"
        hint = f'use at least 2, better 3, for find = "{search.find}"'
        yield document.problem(("trial", "repeats"), message, hint)
    few = meets_latency and trial is not None and "repeats" in trial.model_fields_set
    if few and trial is not None and trial.most_repeats < CAPACITY_REPEATS:
        message = (
            f"is {trial.repeats}: too few trials of a rate to determine its scatter, which leaves the capacity open"
        )
        hint = f'use at least {CAPACITY_REPEATS}, the default with find = "{search.find}"'
        yield document.problem(("trial", "repeats"), message, hint)
    if points and search.kind.axis is not None:
        yield from _axis(search, points, document)
    if workload is not None and isinstance(search.latency, dict):
        yield from _scripts(search.latency, workload, document)


def _axis(search: SearchSpec, points: Sequence[Point], document: Document) -> Iterator[Problem]:
    name = search.axis
    values = {getattr(point, name) for point in points}
    if search.axis == "clients" and any(point.rate is not None for point in points):
        yield document.problem(
            ("sweep", "rate"),
            f'cannot be combined with find = "{search.find}", which measures a closed loop',
            "remove it",
        )
    elif None in values or len(values) < 2:
        message = f"lacks the range of the search: the lowest and highest {name}"
        example = "clients = [1, 128]" if name == "clients" else "rate = [100, 20000]"
        yield document.problem(("sweep", name), message, f"such as {example}")


def _scripts(latency: dict[str, str], workload: Workload, document: Document) -> Iterator[Problem]:
    known = workload.transactions
    for name in latency:
        if name not in known:
            path = ("search", "latency", name)
            yield document.problem(path, "is not a script of this plan", f"its scripts are {', '.join(known)}")
