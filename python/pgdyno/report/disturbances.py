"""The effects of the plan's events, and the commit ledger's results, in lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pgdyno.records import EventOutcome, EventRecord, LedgerRecord, TrialRecord
from pgdyno.report import numbers
from pgdyno.report.texts import gettext, ngettext


def disturbance_lines(trials: Sequence[TrialRecord]) -> list[str]:
    """Return a line for each event and each ledger of `trials`, in order; empty if there are none."""
    lines: list[str] = []
    for trial in trials:
        where = gettext("trial {number}, ", number=trial.number) if len(trials) > 1 else ""
        lines += [f"{where}{_event(event)}" for event in trial.events]
        if trial.ledger is not None:
            lines.append(where + gettext("ledger: {figures}", figures=_ledger(trial.ledger)))
    return lines


def _event(event: EventRecord) -> str:
    name = f"{event.do} ({event.command})" if event.command else event.do
    if event.began_s is None:
        return gettext("{event} at {seconds}: not reached", event=name, seconds=_seconds(event.at_s))
    return gettext(
        "{event} at {seconds}: {effects}",
        event=name,
        seconds=_seconds(event.began_s),
        effects=gettext("; ").join(_parts(event)),
    )


def _parts(event: EventRecord) -> Iterable[str]:
    if event.outcome is EventOutcome.FAILED:
        yield gettext("failed: {message}", message=event.message)
    elif event.outcome is EventOutcome.UNFINISHED:
        yield gettext("unfinished at the end of the trial")
    else:
        yield gettext("took {seconds}", seconds=_seconds(event.seconds or 0))
    effect = event.effect
    if effect is None:
        return
    nobody_s = effect.nobody_served_s
    if nobody_s:
        yield gettext("no successful transaction for {seconds}", seconds=_seconds(nobody_s))
    else:
        yield gettext("never without successful transactions")
    if effect.failed:
        lost = gettext(" ({count} lost)", count=f"{effect.lost:,}") if effect.lost else ""
        yield ngettext("{count:,} transaction failed", "{count:,} transactions failed", effect.failed) + lost
    if effect.before_tps is not None:
        before = f"{numbers.rounded(effect.before_tps)} tps"
        if effect.recovered_s is None:
            yield gettext("not back within 5 % of {tps}", tps=before)
        else:
            after = _seconds(effect.recovered_s)
            yield gettext("back within 5 % of {tps} after {seconds}", tps=before, seconds=after)


def _ledger(ledger: LedgerRecord) -> str:
    parts = [
        gettext(
            "{count} acknowledged, {missing} of them missing",
            count=f"{ledger.acknowledged:,}",
            missing=f"{ledger.missing:,}",
        )
    ]
    if ledger.unknown:
        unknown = {"count": f"{ledger.unknown:,}", "committed": f"{ledger.unknown_present:,}"}
        parts.append(gettext("{count} without an answer, {committed} of them committed", **unknown))
    if ledger.refused_present:
        parts.append(gettext("{count} reported as failed are present", count=f"{ledger.refused_present:,}"))
    if ledger.duplicates:
        parts.append(gettext("{count} are present twice", count=f"{ledger.duplicates:,}"))
    if ledger.strange:
        parts.append(gettext("{count} rows are from no client", count=f"{ledger.strange:,}"))
    return gettext("; ").join(parts)


def _seconds(seconds: float) -> str:
    return f"{numbers.rounded(seconds)} s"
