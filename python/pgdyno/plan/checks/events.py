"""Events and the ledger of a plan against its other sections."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pgdyno.effect import BUILTIN_SCRIPTS, Effect, effect_of_name
from pgdyno.errors import Problem
from pgdyno.plan.checks.sections import Sections
from pgdyno.plan.model import EventSpec
from pgdyno.plan.optional_sections import DROPPING, ON_PROCESSES
from pgdyno.plan.own_data.psql_reader import SqlFileError, read_statements, read_through
from pgdyno.plan.plan_document import KeyPath
from pgdyno.plan.targets import OwnTarget, TargetSpec
from pgdyno.plan.workload import parse_script, together_s
from pgdyno.units import format_duration

LEDGER_VARIABLE = ":ledger_seq"
LEDGER_ROW = "INSERT INTO pgdyno_ledger (client, seq) VALUES (:client_id, :ledger_seq);"


def check_events(plan: Sections) -> Iterator[Problem]:
    phases_s = together_s(plan.phases)
    measured_s = phases_s if phases_s is not None else getattr(plan.trial, "duration", None)
    for place, event in enumerate(plan.events):
        path = ("event", place)
        yield from _operation(event, path, plan)
        end_s = event.at + (event.lasts or 0)
        if measured_s is not None and event.at >= measured_s:
            message = f"is after the trial's end at {format_duration(measured_s)}"
            yield plan.problem((*path, "at"), message, "move it forward, or make the trial longer")
        elif measured_s is not None and end_s > measured_s:
            message = f"ends after the trial's end at {format_duration(measured_s)}"
            yield plan.problem((*path, "for"), message, "make it shorter or earlier, or the trial longer")
        for name, target in plan.targets.items():
            yield from _check_possible(event, name, target, path, plan)
    yield from _after_promote(plan)
    is_off = plan.trial is not None and plan.trial.reconnect == "off"
    if is_off and any(event.name in DROPPING for event in plan.events):
        message = "is off, and an event closes the connections"
        yield plan.problem(("trial", "reconnect"), message, "remove it: clients then reconnect")


def _operation(event: EventSpec, path: KeyPath, plan: Sections) -> Iterator[Problem]:
    if event.name == "pause" and event.lasts is None:
        yield plan.problem(path, "lacks the duration of the pause", 'such as for = "5s"')
    if event.name != "pause" and event.lasts is not None:
        yield plan.problem((*path, "for"), f"applies to a pause, not to a {event.name}", "remove it")
    if event.max_rate is not None and event.name != "backup":
        yield plan.problem((*path, "max_rate"), f"applies to a backup, not to a {event.name}", "remove it")
    if event.control is not None and any(event.control not in point.variables for point in plan.points):
        hint = f'add sweep.variables.{event.control} = ["with", "without"]'
        yield plan.problem((*path, "control"), f"{event.control} is no variable of the sweep", hint)
    for key, sql in (("do", event.sql), ("undo", event.undo)):
        try:
            read_through(read_statements(sql, plan.folder) if sql is not None else ())
        except SqlFileError as error:
            yield plan.problem((*path, key), str(error), error.hint)


def check_until(plan: Sections) -> Iterator[Problem]:
    """Yield why the load of a trial cannot end when it has recovered from its events."""
    trial = plan.trial
    if trial is None or plan.workload is None or trial.until != "recovered":
        return
    path = ("trial", "until")
    if not plan.value_at(("event",)):
        yield plan.problem(path, "needs an event from which the load recovers", "add [[event]]")
    for key in ("phase", "step", "group"):
        if plan.value_at((key,)):
            yield plan.problem(path, f"cannot be combined with [[{key}]]", "remove one of them")
    if trial.transactions is not None or trial.order == "duet":
        key = "transactions" if trial.transactions is not None else 'order = "duet"'
        yield plan.problem(path, f"cannot be combined with {key}", "give duration, the longest time")


def _after_promote(plan: Sections) -> Iterator[Problem]:
    promotes = [(event.at, place) for place, event in enumerate(plan.events) if event.name == "promote"]
    if not promotes:
        return
    first, first_place = min(promotes)
    for place, event in enumerate(plan.events):
        if place == first_place:
            continue
        end_s = event.at + (event.lasts or 0)
        if event.name == "promote" or (event.name in ON_PROCESSES and end_s >= first):
            message = f"is after the promote at {format_duration(first)}, when the old primary no longer exists"
            yield plan.problem(("event", place, "do"), message, "remove it, or end it before the promote")


def _check_possible(
    event: EventSpec, name: str, target: TargetSpec, path: KeyPath, plan: Sections
) -> Iterator[Problem]:
    where, message = (*path, "do"), f"is not possible at target {name}: "
    if not isinstance(target, OwnTarget):
        if event.name in (*ON_PROCESSES, "promote"):
            message += "pgdyno does not run that server" + (", nor its replicas" if event.name == "promote" else "")
            yield plan.problem(where, message, 'use a command of your own: do = { command = "..." }')
    elif event.name == "promote" and target.is_pooled:
        message += "its pooler does not follow the new primary"
        yield plan.problem(where, message, "remove the pooler, or the event")
    elif event.name == "promote" and target.replicas is None:
        hint = f"give it one: [target.{name}.replicas] with count = 1"
        yield plan.problem(where, f"{message}it has no replica", hint)


def check_ledger(plan: Sections) -> Iterator[Problem]:
    """Require a script that writes to the ledger, if there is one."""
    trial, workload = plan.trial, plan.workload
    if trial is None or workload is None or not trial.ledger:
        return
    if not any(_writes(text, plan.folder) for text in workload.written_scripts):
        message = "would count nothing: no script inserts a row into the ledger"
        hint = f"use tpcb-like or simple-update, or put this before the end of your transaction: {LEDGER_ROW}"
        yield plan.problem(("trial", "ledger"), message, hint)


def _writes(text: str, folder: Path) -> bool:
    try:
        name = parse_script(text).name
        if name in BUILTIN_SCRIPTS:
            return effect_of_name(name) is Effect.WRITES
        return LEDGER_VARIABLE in (folder / name).read_text(encoding="utf-8")
    except (ValueError, OSError):
        return True  # the script's own check reports it
