"""What happened while a run measured: events, preparation, searches, standbys."""

from collections.abc import Iterable, Sequence

from pgdyno.records import (
    BackgroundFigures,
    EventEffect,
    EventOutcome,
    EventRecord,
    LedgerRecord,
    Manifest,
    ReplicaLag,
    StandbyProbeRecord,
    TrialRecord,
)
from pgdyno.report import numbers
from pgdyno.report.table import Table
from pgdyno.report.translation import gettext, gettext_each, ngettext, translate
from pgdyno.units import duration_words


def disturbance_lines(trials: Sequence[TrialRecord]) -> list[str]:
    """Return a line for each event and each ledger of `trials`; empty without any."""
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


def _outcome(event: EventRecord) -> Iterable[str]:
    if event.outcome is EventOutcome.FAILED:
        yield gettext("failed: {message}", message=event.message)
    elif event.outcome is EventOutcome.UNFINISHED:
        yield gettext("unfinished at the end of the trial")
    elif event.is_control:
        yield gettext("waited {seconds} in its place", seconds=_seconds(event.seconds or 0))
    else:
        yield gettext("took {seconds}", seconds=_seconds(event.seconds or 0))
    if event.alone_s is not None:
        yield gettext("took {seconds} after the load", seconds=_seconds(event.alone_s))


def _parts(event: EventRecord) -> Iterable[str]:
    yield from _outcome(event)
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
    yield from _recovery(effect)


def _recovery(effect: EventEffect) -> Iterable[str]:
    after = None if effect.recovered_s is None else _seconds(effect.recovered_s)
    if effect.before_latency_ns is not None:
        limit = f"{numbers.ms(effect.before_latency_ns)} ms"
        if after is None:
            yield gettext("mean latency not back at {limit}", limit=limit)
        else:
            yield gettext("mean latency back at {limit} after {seconds}", limit=limit, seconds=after)
    elif effect.before_tps is not None:
        before = f"{numbers.round_text(effect.before_tps)} tps"
        if after is None:
            yield gettext("not back within 5 % of {tps}", tps=before)
        else:
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
        parts.append(
            ngettext(
                "{count:,} reported as failed is present",
                "{count:,} reported as failed are present",
                ledger.refused_present,
            )
        )
    if ledger.duplicates:
        parts.append(ngettext("{count:,} is present twice", "{count:,} are present twice", ledger.duplicates))
    if ledger.strange:
        parts.append(ngettext("{count:,} row is from no client", "{count:,} rows are from no client", ledger.strange))
    return gettext("; ").join(parts)


def _seconds(seconds: float) -> str:
    return f"{numbers.round_text(seconds)} s"


def preparation_line(trials: Sequence[TrialRecord]) -> str:
    """Return `Preparing 18 trials took 42 s (0.1 s to 31 s each; reset: vacuum)`; empty if no trial has the data."""
    known = [trial.prepare for trial in trials if trial.prepare is not None]
    if not known:
        return ""
    took = [each.seconds for each in known]
    values = {
        "trials": numbers.trials(len(took)),
        "seconds": _short_duration(sum(took)),
        "methods": ", ".join(dict.fromkeys(each.method for each in known)),
    }
    if len(took) > 1:
        each = numbers.range_text(_short_duration(min(took)), _short_duration(max(took)))
        line = gettext("preparing {trials} took {seconds} ({each} each; reset: {methods})", each=each, **values)
    else:
        line = gettext("preparing {trials} took {seconds} (reset: {methods})", **values)
    checks = [trial.consistency.seconds for trial in trials if trial.consistency is not None]
    if any(checks):
        line += gettext(", checking consistency {seconds}", seconds=_short_duration(sum(checks)))
    return line


def _short_duration(seconds: float) -> str:
    return duration_words(round(seconds, 1))


def search_lines(manifest: Manifest) -> list[str]:
    """Return a line for each search of a run; empty without one, and while it runs."""
    several = len(manifest.search) > 1
    lines = []
    for each in manifest.search:
        point = {name: value for name, value in each.point if name not in ("clients", "rate") and value}
        where = [f"target {each.target}", *(f"{name} {value}" for name, value in point.items())]
        # an older record has only the sentence
        found = gettext("; ").join(translate(part.message) for part in each.messages) or each.words
        line = f"{', '.join(where)}: {found}" if several else found
        lines.append(f"{line} ({numbers.trials(each.trials)})")
    return lines


def replica_table(trials: Sequence[TrialRecord]) -> Table | None:
    """Return a row per trial and standby; None without standbys."""
    rows = []
    for trial in trials:
        probes = {each.name: each for each in trial.probe.standbys} if trial.probe is not None else {}
        number = str(trial.number)
        rows += [(number, lag.name, *_lag(lag), *_activity(probes.get(lag.name))) for lag in trial.replication]
    headings = gettext_each("trial", "standby", "behind, kB", "lag, ms", "active", "top wait")
    caption = gettext("Standbys during each trial; largest replay lag, in kB and ms")
    return Table(caption, headings, tuple(rows), 2, (0,) * 4 + (1, 2)) if rows else None


def pooler_table(trials: Sequence[TrialRecord]) -> Table | None:
    """Return a row per trial behind a pooler: the parts of its mean latency, in ms, which add up; None without one."""
    rows = []
    for trial in trials:
        pooler = trial.probe.pooler if trial.probe is not None else None
        latency = trial.summary.latency_ns if trial.summary is not None else None
        if pooler is None or pooler.queue_ms is None or pooler.server_ms is None or latency is None or not latency.mean:
            continue
        mean_ms = latency.mean / 1e6
        parts = (mean_ms, pooler.queue_ms, pooler.server_ms, mean_ms - pooler.queue_ms - pooler.server_ms)
        sessions = (pooler.clients_waiting, pooler.servers_active, pooler.servers_idle)
        limit = gettext("pool of {size}", size=pooler.pool) if pooler.is_exhausted else numbers.NOTHING
        cells = (numbers.round_text(each or 0.0) for each in (*parts, *sessions))
        rows.append((str(trial.number), limit, *cells))
    headings = gettext_each("trial", "full", "mean, ms", "queue, ms", "server, ms", "rest, ms")
    more = gettext_each("waiting", "active", "idle")
    caption = gettext(
        "Connection pooler: wait for a session, statements at the server, and the rest of the mean latency; clients "
        "that wait, and sessions"
    )
    return Table(caption, (*headings, *more), tuple(rows), 2) if rows else None


def background_table(trials: Sequence[TrialRecord]) -> Table | None:
    """Return a row per trial and load in its background; None without any."""
    rows = [(str(trial.number), *_load(each)) for trial in trials for each in trial.background]
    headings = (*gettext_each("trial", "group", "clients"), "tps", "p50, ms", "p99, ms", *gettext_each("failed"))
    caption = gettext("Loads in the background of each trial, in its measured part")
    return Table(caption, headings, tuple(rows), 2) if rows else None


def _load(load: BackgroundFigures) -> tuple[str, ...]:
    latency = load.latency_ns
    return (
        load.name,
        f"{load.clients:,}",
        numbers.round_or_dash(load.tps),
        numbers.ms(latency.p50 if latency is not None else None),
        numbers.ms(latency.p99 if latency is not None else None),
        f"{load.failed:,}",
    )


def _lag(lag: ReplicaLag) -> tuple[str, str]:
    replay_s = lag.replay_lag_max_s
    return (numbers.round_or_dash(lag.bytes_max, 1e3), numbers.ms(None if replay_s is None else replay_s * 1e9))


def _activity(probe: StandbyProbeRecord | None) -> tuple[str, str]:
    if probe is None or probe.active is None:
        return (numbers.NOTHING,) * 2
    top = next(iter(probe.waits.items()), None)
    shown = numbers.NOTHING if top is None else f"{top[0]} {numbers.round_text(top[1], 2)}"
    return numbers.round_text(probe.active, 2), shown
