"""What events of the plan did, and what became of acknowledged transactions, in lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pgdyno.records import EventOutcome, EventRecord, LedgerRecord, TrialRecord
from pgdyno.report import numbers


def disturbance_lines(trials: Sequence[TrialRecord]) -> list[str]:
    """A line for each event and each ledger of `trials`, in their order; empty when there are none."""
    lines: list[str] = []
    for trial in trials:
        where = f"trial {trial.number}, " if len(trials) > 1 else ""
        lines += [f"{where}{_event(event)}" for event in trial.events]
        if trial.ledger is not None:
            lines.append(f"{where}ledger: {_ledger(trial.ledger)}")
    return lines


def _event(event: EventRecord) -> str:
    name = f"{event.do} ({event.command})" if event.command else event.do
    if event.began_s is None:
        return f"{name} at {_seconds(event.at_s)}: not reached"
    return f"{name} at {_seconds(event.began_s)}: {'; '.join(_parts(event))}"


def _parts(event: EventRecord) -> Iterable[str]:
    if event.outcome is EventOutcome.FAILED:
        yield f"failed: {event.message}"
    elif event.outcome is EventOutcome.UNFINISHED:
        yield "unfinished at the trial's end"
    else:
        yield f"took {_seconds(event.seconds or 0)}"
    effect = event.effect
    if effect is None:
        return
    nobody_s = effect.nobody_served_s
    yield f"nobody served for {_seconds(nobody_s)}" if nobody_s else "somebody was always served"
    if effect.failed:
        lost = f" ({effect.lost:,} lost)" if effect.lost else ""
        yield f"{effect.failed:,} transaction{'s' if effect.failed != 1 else ''} failed{lost}"
    if effect.before_tps is not None:
        before = f"{numbers.rounded(effect.before_tps)} tps"
        if effect.recovered_s is None:
            yield f"not back within 5 % of {before}"
        else:
            yield f"back within 5 % of {before} after {_seconds(effect.recovered_s)}"


def _ledger(ledger: LedgerRecord) -> str:
    parts = [f"{ledger.acknowledged:,} acknowledged, {ledger.missing:,} of them missing"]
    if ledger.unknown:
        parts.append(f"{ledger.unknown:,} not heard of, {ledger.unknown_present:,} of them committed")
    if ledger.refused_present:
        parts.append(f"{ledger.refused_present:,} that failed are there")
    if ledger.duplicates:
        parts.append(f"{ledger.duplicates:,} are there twice")
    if ledger.strange:
        parts.append(f"{ledger.strange:,} rows are of no client")
    return "; ".join(parts)


def _seconds(seconds: float) -> str:
    return f"{numbers.rounded(seconds)} s"
