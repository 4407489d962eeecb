"""A model of a capture: scripts with weights, arrivals, and what they leave out."""

import math
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from pgdyno.capture.left_out import left_out_of
from pgdyno.capture.server.server_session import Connection
from pgdyno.effect import has_plan
from pgdyno.errors import UsageError
from pgdyno.records.capture import STATEMENTS_FILE, Capture
from pgdyno.synthesise.column_statistics import Refused, read_statement
from pgdyno.synthesise.constants import PLACE
from pgdyno.synthesise.scripts import MOST_PARAMETERS, Script, Share, write_script
from pgdyno.synthesise.transactions import (
    MOST_SCRIPTS,
    Activity,
    CapturedStatements,
    Left,
    LeftTransactions,
    TransactionClass,
    sum_by_reason,
)
from pgdyno.synthesise.values_and_pauses import read_sites

SHORTEST_PAUSE_US = 1_000
"""A client that pauses for less between two transactions waits for the server alone; logs have milliseconds."""
MOST_COMMITS = 0.9
"""From this part of pauses of at most 10 ms on, they are taken to be commits: in the extended protocol, a statement
outside of a block commits after the server has logged its duration, so its commit looks like a pause.
"""
HEADROOM = 3
"""Clients for each one that is in a transaction on average, so that an arrival finds a free one."""


@dataclass(frozen=True)
class Arrivals:
    """The load's clients and rate."""

    clients: int
    rate: float | None
    """Transactions per second, as a Poisson process; None: each client begins the next one at once (closed loop)."""
    reason: str
    """Why it is one or the other."""


def closed_clients(found: Activity) -> int | None:
    """Decides whether the load is closed, and returns how many clients it then has; None for an open loop.

    If sessions mostly went on at once, or paused for a commit, the server set the pace: a closed loop, with as many
    clients as sessions worked at a time. Otherwise the users did, whose number and pauses a log does not show. A log of
    whole seconds shows neither.
    """
    if found.has_whole_seconds or found.pause_us is None:
        return None
    if found.pause_us < SHORTEST_PAUSE_US or found.at_most_10_ms >= MOST_COMMITS:
        return max(1, round(found.at_once))
    return None


def find_arrivals(found: Activity, modelled: int, span_us: int, most_sessions: int) -> Arrivals:
    """Return the clients and the rate of a load.

    In an open loop, transactions arrive at their mean rate, as those of independent users do, however fast the server
    answers. `modelled` is the number of transactions that the scripts cover.
    """
    clients = closed_clients(found)
    if clients is not None:
        reason = (
            f"{100 * found.short:.0f} % of the pauses between the transactions of a session were shorter than "
            f"{SHORTEST_PAUSE_US / 1_000:g} ms, {100 * found.at_most_10_ms:.0f} % at most 10 ms, as commits are, so "
            f"the server set the pace: {clients} sessions, on average, went on at once"
        )
        return Arrivals(clients, None, reason)
    rate = modelled / (span_us / 1e6)
    clients = max(1, most_sessions, math.ceil(HEADROOM * found.working))
    paused = "" if found.pause_us is None else f" for {found.pause_us / 1_000:,.0f} ms (median)"
    pace = f"sessions paused between transactions{paused}, so their users set the pace"
    if found.has_whole_seconds:
        pace = "the times of the log are whole seconds, which show no pauses (%m in log_line_prefix has milliseconds)"
    reason = (
        f"{pace}: the mean rate of {modelled:,} transactions in {span_us / 1e6:,.0f} s. "
        f"At most {most_sessions:,} sessions were open; {found.working:.2f} were in a transaction on average"
    )
    return Arrivals(clients, float(f"{rate:.4g}"), reason)


def arrivals_of_totals(calls: int, total_us: float, span_us: int, most_sessions: int) -> Arrivals:
    """Return the arrivals of a capture that has only totals: at their mean rate."""
    seconds = span_us / 1e6
    clients = max(1, most_sessions, math.ceil(HEADROOM * total_us / span_us))
    reason = f"the mean rate of {calls:,} statements in {seconds:,.0f} s; pg_stat_statements does not show pauses"
    return Arrivals(clients, float(f"{calls / seconds:.4g}"), reason)


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
    """Make a model of a capture of a log. Raises UsageError if it has nothing to model, StoreError if it is damaged."""
    texts = [each.text for each in capture.statements]
    with closing(CapturedStatements.open(folder / STATEMENTS_FILE, len(texts))) as statements:
        classes = statements.classes(capture.statements, least)
        if not classes.count:
            raise UsageError(f"{folder} has no statements", hint=_EMPTY_HINT)
        protocol = statements.protocol(capture.statements)
        used = {number for each in classes.kept for sequence in each.sequences for number in sequence}
        most = max((len(PLACE.findall(texts[number])) for number in used), default=0)
        notes = [str(each) for each in left_out_of(capture)]
        if protocol != "simple" and most > MOST_PARAMETERS:
            note = f"a statement has {most:,} constants, more than a script can send as parameters: protocol simple"
            notes.append(note)
            protocol = "simple"
        left = list(classes.left)
        activity = replace(statements.activity(), has_whole_seconds=capture.has_whole_seconds)
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
            raise UsageError(f"none of the transactions in {folder} can be in a script", hint=_reasons(left))
        transactions = sum(each.count for each, _ in written)
        arrivals = find_arrivals(activity, transactions, capture.span_us, capture.most_sessions)
    scripts = [script for _, script in written]
    whole = classes.us or capture.calls
    modelled = sum(each.us if classes.us else each.statements for each, _ in written) / whole
    return Model(_with_commands(capture, scripts), scripts, arrivals, protocol, sum_by_reason(left), modelled, notes)


def model_statistics(folder: Path, capture: Capture, least: float, connection: Connection) -> Model:
    """Make a model of a capture of pg_stat_statements, with values from the statistics of the database's columns.

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
        if not has_plan(each.text):
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
        raise UsageError(
            f"none of the statements in {folder} can be in a script", hint="; ".join(notes) or _reasons(left)
        )
    counted = sum(script.weight for script in scripts)
    arrivals = arrivals_of_totals(counted, total_us, capture.span_us, capture.most_sessions)
    return Model(
        _with_commands(capture, scripts), scripts, arrivals, "extended", sum_by_reason(left), modelled / whole, notes
    )


def _reasons(left: list[LeftTransactions]) -> str:
    return "; ".join(f"{each.count:,}: {each.reason.value}" for each in sum_by_reason(left))


def _with_commands(capture: Capture, scripts: list[Script]) -> Capture:
    return capture.model_copy(update={"commands": {script.name: script.commands for script in scripts}})
