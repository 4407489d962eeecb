"""A model of a capture: scripts with weights, arrivals, and what they leave out."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from pgdyno.capture.server.server_session import Connection
from pgdyno.errors import UsageError
from pgdyno.records.capture import STATEMENTS_FILE, Capture
from pgdyno.synthesise.arrivals import Arrivals, arrivals_of_totals, closed_clients, find_arrivals
from pgdyno.synthesise.column_statistics import Refused, is_statement, read_statement
from pgdyno.synthesise.constants import PLACE
from pgdyno.synthesise.scripts import MOST_PARAMETERS, Script, Share, write_script
from pgdyno.synthesise.transactions import (
    MOST_SCRIPTS,
    CapturedStatements,
    Left,
    LeftTransactions,
    TransactionClass,
    summed,
)
from pgdyno.synthesise.values_and_pauses import read_sites

_EMPTY_HINT = "capture while the application runs"


@dataclass(frozen=True)
class Model:
    """A load as scripts, arrivals and variables, ready to be written to a folder."""

    capture: Capture
    """The capture, with the class of each command of the scripts."""
    scripts: list[Script]
    arrivals: Arrivals
    protocol: str
    left: list[LeftTransactions]
    modelled: float
    """The part of the time on the server that the scripts cover; of the statements if the capture has no times."""
    notes: list[str]
    """What a person should know about single scripts."""


def model_log(folder: Path, capture: Capture, least: float) -> Model:
    """Makes a model of a capture of a log.

    Raises UsageError if it has nothing to model, StoreError if it is damaged.
    """
    texts = [each.text for each in capture.statements]
    with closing(CapturedStatements.open(folder / STATEMENTS_FILE, len(texts))) as statements:
        classes = statements.classes(capture.statements, least)
        if not classes.count:
            raise UsageError(f"{folder} has no statements", hint=_EMPTY_HINT)
        protocol = statements.protocols().most_common(1)[0][0]
        used = {number for each in classes.kept for sequence in each.sequences for number in sequence}
        most = max((len(PLACE.findall(texts[number])) for number in used), default=0)
        notes = []
        if protocol != "simple" and most > MOST_PARAMETERS:
            note = f"a statement has {most:,} constants, more than a script can send as parameters: protocol simple"
            notes.append(note)
            protocol = "simple"
        left = list(classes.left)
        activity = statements.activity()
        clients = closed_clients(activity)
        sessions = statements.busiest(clients) if clients is not None else []
        is_simple = protocol == "simple"
        written: list[tuple[TransactionClass, Script]] = []
        for each in classes.kept:
            found = read_sites(each, statements.sample(each), texts)
            share = Share(each.count, classes.count, each.us / classes.us if classes.us else None)
            of = len(written) + 1
            script = None
            if found is not None:
                script = write_script(found, of, share, texts, capture.began, sessions, is_simple=is_simple)
            if script is None:
                left.append(LeftTransactions(Left.UNREADABLE, each.count, each.us))
            else:
                written.append((each, script))
        if not written:
            reasons = "; ".join(f"{each.count:,}: {each.reason.value}" for each in left)
            raise UsageError(f"none of the transactions in {folder} can be in a script", hint=reasons)
        transactions = sum(each.count for each, _ in written)
        arrivals = find_arrivals(activity, transactions, capture.span_us, capture.most_sessions)
    scripts = [script for _, script in written]
    whole = classes.us or capture.calls
    modelled = sum(each.us if classes.us else each.statements for each, _ in written) / whole
    return Model(_with_commands(capture, scripts), scripts, arrivals, protocol, summed(left), modelled, notes)


def model_statistics(folder: Path, capture: Capture, least: float, connection: Connection) -> Model:
    """Makes a model of a capture of pg_stat_statements, with values from the statistics of the database's columns.

    Raises UsageError if it has nothing to model.
    """
    total_us = sum(each.total_us or 0.0 for each in capture.statements)
    weights = [each.total_us or 0.0 if total_us else float(each.calls) for each in capture.statements]
    whole = sum(weights)
    texts = [each.text for each in capture.statements]
    scripts: list[Script] = []
    left: list[LeftTransactions] = []
    notes: list[str] = []
    modelled = 0.0
    for number in sorted(range(len(weights)), key=lambda number: (-weights[number], number)):
        each = capture.statements[number]
        reason: Left | None = None
        if not is_statement(each.text):
            reason = Left.COMMAND if each.has_text else Left.UNREADABLE
        elif weights[number] < least * whole:
            reason = Left.RARE
        elif len(scripts) == MOST_SCRIPTS:
            reason = Left.MANY
        else:
            share = Share(each.calls, capture.calls, (each.total_us or 0.0) / total_us if total_us else None)
            try:
                sampled, without = read_statement(connection, number, each, capture.began)
            except Refused as refused:
                reason = Left.REFUSED
                notes.append(f"left out, because {refused}: {' '.join(each.text.split())[:100]}")
            else:
                script = write_script(sampled, len(scripts) + 1, share, texts, capture.began, (), is_simple=False)
                if script is None:
                    reason = Left.UNREADABLE
                else:
                    scripts.append(script)
                    notes += [f"{script.name}: {note}" for note in without]
                    modelled += weights[number]
        if reason is not None:
            left.append(LeftTransactions(reason, each.calls, round(each.total_us or 0)))
    if not scripts:
        raise UsageError(f"none of the statements in {folder} can be in a script", hint="; ".join(notes) or _EMPTY_HINT)
    counted = sum(script.weight for script in scripts)
    arrivals = arrivals_of_totals(counted, total_us, capture.span_us, capture.most_sessions)
    return Model(_with_commands(capture, scripts), scripts, arrivals, "extended", summed(left), modelled / whole, notes)


def _with_commands(capture: Capture, scripts: list[Script]) -> Capture:
    return capture.model_copy(update={"commands": {script.name: script.commands for script in scripts}})
