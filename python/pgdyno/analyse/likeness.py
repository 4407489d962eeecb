"""How like its capture a load was: for each class of statements, its share, times and errors in both.

The time of the capture is that on the server. The time of the trial is what the client waited, which includes the
network; so only large differences mean something.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pgdyno.analyse.histogram import merge
from pgdyno.effect.short_statement import short_statement
from pgdyno.messages import Message
from pgdyno.records import CapturedWait, ClassLikeness, Likeness, Summary
from pgdyno.records.capture import Capture, StatementClass

MOST_CLASSES = 100
COPY_DATA = "copy-data"
"""The reason for which a capture leaves out COPY from the client."""
KEY_ERRORS = ("23503", "23505")
"""Violations of a foreign key and of a unique one."""
TEXT = 200
"""Characters of a text that a trial's record keeps."""


@dataclass(frozen=True, slots=True)
class MeasuredStatement:
    """One statement of a script, or one class of a replay, as the engine reports it at the end of a trial."""

    of: int | None
    """Number of its class in the capture; None if it has none."""
    succeeded: int
    failed: int
    p50_ns: int | None
    p99_ns: int | None
    histogram: str | None = None
    """Base64; None if the engine did not write it, so that percentiles cannot be merged."""


def replayed_statements(end: Mapping[str, Any]) -> list[MeasuredStatement]:
    """Return the classes of a replay from the engine's event `end`; a statement's number is that of its class."""
    return [
        _measured_statement(statement, statement["id"])
        for script in end.get("scripts") or ()
        for statement in script.get("statements") or ()
    ]


def modelled_statements(
    start: Mapping[str, Any], end: Mapping[str, Any], commands: Mapping[str, Sequence[int | None]]
) -> list[MeasuredStatement]:
    """Return the statements of scripts that model a capture.

    `commands` has the class of each SQL command by the script's name, in the order of the script.
    """
    names = {script["id"]: script["name"] for script in start.get("scripts") or ()}
    ids = {script["id"]: [each["id"] for each in script["statements"]] for script in start.get("scripts") or ()}
    found = []
    for script in end.get("scripts") or ():
        known = commands.get(names.get(script["script"], ""), ())
        classes = dict(zip(ids.get(script["script"], ()), known, strict=False))
        found += [_measured_statement(each, classes.get(each["id"])) for each in script.get("statements") or ()]
    return found


def _measured_statement(statement: Mapping[str, Any], of: int | None) -> MeasuredStatement:
    latency = statement.get("latency_ns") or {}
    return MeasuredStatement(
        of,
        statement["executions"],
        statement["failures"],
        latency.get("p50"),
        latency.get("p99"),
        statement.get("histogram"),
    )


def likeness(capture: Capture, statements: Iterable[MeasuredStatement], named: Collection[int] = ()) -> Likeness:
    """Compare a trial's `statements` with `capture`; keep also the classes `named`, whatever time they take."""
    by_class: dict[int | None, list[MeasuredStatement]] = defaultdict(list)
    for each in statements:
        is_known = each.of is not None and each.of < len(capture.statements)
        by_class[each.of if is_known else None].append(each)
    counts = {of: sum(each.succeeded + each.failed for each in some) for of, some in by_class.items()}
    captured, measured = sum(each.calls for each in capture.statements), sum(counts.values())
    outside = counts.pop(None, 0)
    compared = [
        _class_likeness(number, each, by_class.get(number, ()), captured, measured)
        for number, each in enumerate(capture.statements)
    ]
    differences: dict[int | None, float] = {each.number: abs(each.share - each.captured_share) for each in compared}
    differences[None] = outside / measured if measured else 0.0
    unlike = max(differences, key=lambda number: differences[number])
    order = sorted(compared, key=lambda each: _weight(capture.statements[each.number]), reverse=True)
    kept = [each for at, each in enumerate(order) if at < MOST_CLASSES or each.number in named]
    return Likeness(
        captured_calls=captured,
        captured_per_s=captured / capture.span_us * 1e6 if capture.span_us else None,
        calls=measured,
        classes=kept,
        classes_left_out=len(order) - len(kept),
        largest_difference=differences[unlike],
        unlike_class=unlike,
        outside=outside,
        not_modelled=sum(each.captured_share for each in compared if each.number not in by_class),
        copies_left_out=sum(each.count for each in capture.left_out if each.reason == COPY_DATA),
        waits=[CapturedWait(wait=each.wait, sessions=each.sessions) for each in capture.waits],
    )


def _weight(of: StatementClass) -> tuple[float, int]:
    return of.total_us or 0.0, of.calls


def _class_likeness(
    number: int, captured: StatementClass, measured: Sequence[MeasuredStatement], all_captured: int, all_measured: int
) -> ClassLikeness:
    calls = sum(each.succeeded + each.failed for each in measured)
    p50_us, p99_us = _percentiles_us(measured)
    return ClassLikeness(
        number=number,
        text=short_statement(captured.text, TEXT),
        captured_calls=captured.calls,
        captured_share=captured.calls / all_captured if all_captured else 0.0,
        captured_errors=captured.errors,
        captured_p50_us=captured.p50_us,
        captured_p99_us=captured.p99_us,
        calls=calls,
        share=calls / all_measured if all_measured else 0.0,
        errors=sum(each.failed for each in measured),
        p50_us=p50_us,
        p99_us=p99_us,
    )


def _percentiles_us(measured: Sequence[MeasuredStatement]) -> tuple[float | None, float | None]:
    """Return p50 and p99 of statements together: histograms are merged, percentiles are never averaged."""
    some = [each for each in measured if each.succeeded]
    if len(some) == 1:
        return _to_us(some[0].p50_ns), _to_us(some[0].p99_ns)
    blobs = [each.histogram for each in some if each.histogram is not None]
    merged = merge(blobs) if blobs and len(blobs) == len(some) else None
    if merged is None:
        return None, None
    p50, p99 = merged.percentiles_ns((50.0, 99.0))
    return p50 / 1e3, p99 / 1e3


def _to_us(value_ns: int | None) -> float | None:
    return None if value_ns is None else value_ns / 1e3


def disagreement_causes(likeness: Likeness | None, summary: Summary) -> list[Message]:
    """Return why statements of a replay had other results than captured, as far as the trial shows it.

    A log has no rows of COPY, so that later statements miss them. Sequences give out keys in the order in which
    sessions ask, which a replay does not repeat, while the statements name the captured keys.
    """
    causes = []
    replay = summary.replay
    copies = (likeness.copies_left_out if likeness is not None else 0) + (
        replay.copies_without_data if replay is not None else 0
    )
    if copies:
        causes.append(
            Message(
                "replay-lacks-rows",
                "rows of COPY are missing, because a log does not have them ({copies:,})",
                copies=copies,
            )
        )
    errors = sum(error.count for error in summary.errors if error.sqlstate in KEY_ERRORS)
    if errors:
        causes.append(
            Message(
                "replay-other-keys",
                "keys were violated ({errors:,}): sequences gave them out in another order than captured, or they "
                "were there before",
                errors=errors,
            )
        )
    return causes or [Message("replay-other-state", "the database may have been in another state")]
