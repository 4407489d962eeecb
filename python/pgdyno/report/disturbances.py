"""What events of the plan did, and what became of acknowledged transactions, in lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pgdyno.records import EventOutcome, EventRecord, LedgerRecord, TrialRecord
from pgdyno.report import numbers
from pgdyno.report.texts import say, say_count


def disturbance_lines(trials: Sequence[TrialRecord]) -> list[str]:
    """A line for each event and each ledger of `trials`, in their order; empty when there are none."""
    lines: list[str] = []
    for trial in trials:
        where = say("trial {number}, ", number=trial.number) if len(trials) > 1 else ""
        lines += [f"{where}{_event(event)}" for event in trial.events]
        if trial.ledger is not None:
            lines.append(where + say("ledger: {figures}", figures=_ledger(trial.ledger)))
    return lines


def _event(event: EventRecord) -> str:
    name = f"{event.do} ({event.command})" if event.command else event.do
    if event.began_s is None:
        return say("{event} at {seconds}: not reached", event=name, seconds=_seconds(event.at_s))
    return say(
        "{event} at {seconds}: {effects}",
        event=name,
        seconds=_seconds(event.began_s),
        effects=say("; ").join(_parts(event)),
    )


def _parts(event: EventRecord) -> Iterable[str]:
    if event.outcome is EventOutcome.FAILED:
        yield say("failed: {message}", message=event.message)
    elif event.outcome is EventOutcome.UNFINISHED:
        yield say("unfinished at the trial's end")
    else:
        yield say("took {seconds}", seconds=_seconds(event.seconds or 0))
    effect = event.effect
    if effect is None:
        return
    nobody_s = effect.nobody_served_s
    if nobody_s:
        yield say("nobody served for {seconds}", seconds=_seconds(nobody_s))
    else:
        yield say("somebody was always served")
    if effect.failed:
        lost = say(" ({count} lost)", count=f"{effect.lost:,}") if effect.lost else ""
        yield say_count(effect.failed, "{count} transaction failed", "{count} transactions failed") + lost
    if effect.before_tps is not None:
        before = f"{numbers.rounded(effect.before_tps)} tps"
        if effect.recovered_s is None:
            yield say("not back within 5 % of {tps}", tps=before)
        else:
            after = _seconds(effect.recovered_s)
            yield say("back within 5 % of {tps} after {seconds}", tps=before, seconds=after)


def _ledger(ledger: LedgerRecord) -> str:
    parts = [
        say(
            "{count} acknowledged, {missing} of them missing",
            count=f"{ledger.acknowledged:,}",
            missing=f"{ledger.missing:,}",
        )
    ]
    if ledger.unknown:
        unknown = {"count": f"{ledger.unknown:,}", "committed": f"{ledger.unknown_present:,}"}
        parts.append(say("{count} not heard of, {committed} of them committed", **unknown))
    if ledger.refused_present:
        parts.append(say("{count} that failed are there", count=f"{ledger.refused_present:,}"))
    if ledger.duplicates:
        parts.append(say("{count} are there twice", count=f"{ledger.duplicates:,}"))
    if ledger.strange:
        parts.append(say("{count} rows are of no client", count=f"{ledger.strange:,}"))
    return say("; ").join(parts)


def _seconds(seconds: float) -> str:
    return f"{numbers.rounded(seconds)} s"
