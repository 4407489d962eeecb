"""The answer to the plan's question, as a value: the terminal ends with it; page, PDF and Markdown begin with it.

With several arms it is the verdict of their comparison, as in `pgdyno compare`; with phases and with fixed rates the
figures of each; for a search its result; otherwise the peak.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from pgdyno.analyse.comparison import Comparison, Verdict
from pgdyno.analyse.scaling import ScalingCurve
from pgdyno.analyse.series import Series
from pgdyno.audit import Finding
from pgdyno.audit.pairing import of_single_trials
from pgdyno.records import SearchRecord
from pgdyno.report import numbers, sentences
from pgdyno.report.answers.comparison import cause_lines, comparison_sentence, confounded_line, next_step, point_counts
from pgdyno.report.answers.comparison_export import comparison_json
from pgdyno.report.answers.endurance import endurance_json
from pgdyno.report.answers.instruction_costs import counted_arms
from pgdyno.report.answers.loads.connecting import connect_lines
from pgdyno.report.answers.loads.event_figures import event_table, events_json, median_table, named_events
from pgdyno.report.answers.loads.groups import groups_text, not_served
from pgdyno.report.answers.loads.impact import find_impact, impact_details, impact_json, impact_text
from pgdyno.report.answers.loads.outages import outage_lines, outage_table, outages_json, outages_of
from pgdyno.report.answers.loads.phases import phase_table, phases_of, phases_text
from pgdyno.report.answers.loads.rates import (
    fails_much,
    failure_lines,
    has_kept_up,
    has_rates,
    kept_up,
    rate_answers,
    rate_table,
    rated_points,
    rates_text,
    served_share,
)
from pgdyno.report.answers.noise import noise_grade, noise_json
from pgdyno.report.answers.peaks import edges, peaks, peaks_text, spread
from pgdyno.report.answers.promises import Judgement, judged_promises, promise_lines, promises_json, promises_text
from pgdyno.report.answers.searches import cheapest_table, cheapest_text, settings_table, settings_text
from pgdyno.report.answers.workload_figures import all_figures
from pgdyno.report.costs import curve_price
from pgdyno.report.report_content import Digest, Extras
from pgdyno.report.run_notes import search_lines
from pgdyno.report.table import Table
from pgdyno.report.translation import enumeration, gettext, ngettext, sentence, translate

MOST_OTHERS = 8
"""Comparisons to show besides the chief one."""
MOST_REASONS = 3
"""Failures to name if there is no other result."""


class Kind(StrEnum):
    NOTHING = "nothing"
    """No trial finished."""
    COMPARISON = "comparison"
    INCOMPARABLE = "incomparable"
    """The plan has several arms that could not be compared."""
    SEARCH = "search"
    PHASES = "phases"
    RATES = "rates"
    QUERIES = "queries"
    GROUPS = "groups"
    IMPACT = "impact"
    PEAK = "peak"


@dataclass(frozen=True, slots=True)
class Answer:
    """The first statement of a page, and the last in a terminal."""

    text: str
    """One sentence, without its full stop."""
    kind: Kind
    details: tuple[str, ...] = ()
    """Further sentences: how to reach a verdict, the other arms, the spread between trials."""
    table: Table | None = None
    """The table of phases, of rates, of events, or of the targets of a search."""
    invalid: tuple[str, ...] = ()
    """Why it is void, by the audit; empty if it is valid, or there was no audit."""
    chief: Comparison | None = None
    """The comparison in `text`; None without one."""
    promises: tuple[Judgement, ...] = ()
    """Each promise of the plan at each point. Without a comparison, `text` says whether they were held."""


def shows_peak(of: Digest, said: Answer) -> bool:
    """Return whether the answer may show one peak as the best.

    If arms cannot be distinguished, none is the best; in an open loop, the plan sets the throughput. The best
    observation of a search for settings is not a result, and queries of different kinds have no common rate.
    """
    if of.manifest.finds_settings or of.manifest.is_untimed:
        return False
    is_settled = said.chief is None or _verdict(said.chief) is not Verdict.INCONCLUSIVE
    return is_settled and phase_table(of) is None and not has_rates(of) and not of.has_groups


def answer(of: Digest, extras: Extras) -> Answer:
    """The answer of a run, or of several that are compared."""
    said = _with_promises(_with_events(_answer(of, extras), of), of, judged_promises(of, extras))
    said = replace(said, details=(*said.details, *connect_lines(of)))
    return replace(said, invalid=tuple(translate(each.translatable_message) for each in refusing_findings(extras)))


def _with_events(said: Answer, of: Digest) -> Answer:
    events, outages = named_events(of), outages_of(of)
    if not events or said.kind in (Kind.NOTHING, Kind.IMPACT):
        return said
    text = gettext("{claim}, with {events}", claim=said.text, events=events)
    if not outages:
        return replace(said, text=text)
    first, *more = outage_lines(outages)
    table = outage_table(outages)
    if said.kind in (Kind.PEAK, Kind.RATES):
        return replace(said, text=first, details=(*more, text, *said.details), table=table)
    return replace(said, text=text, details=(first, *more, *said.details), table=table)


def _with_promises(said: Answer, of: Digest, judged: Sequence[Judgement]) -> Answer:
    if not judged or said.kind is Kind.NOTHING:
        return replace(said, promises=tuple(judged))
    lines, text = tuple(promise_lines(judged, of)), said.text
    if said.kind not in (Kind.COMPARISON, Kind.INCOMPARABLE):
        text = promises_text(judged, of)
        lines = (*(lines if len(judged) > 1 else ()), said.text)
    return replace(said, text=text, details=(*lines, *said.details), promises=tuple(judged))


def refusing_findings(extras: Extras) -> list[Finding]:
    """Return the findings that make an answer void."""
    whole, single = of_single_trials(extras.findings or ())
    return [each for each in (*whole, *([] if extras.left_out else single)) if each.checked]


def _answer(of: Digest, extras: Extras) -> Answer:
    if not any(point.finished for point in of.points):
        return Answer(sentences.nothing_finished(of), Kind.NOTHING, tuple(_reasons(of)))
    if of.manifest.finds_settings and of.manifest.search:
        return _of_settings(of.manifest.search[0])
    if of.manifest.finds_cheapest and of.manifest.search:
        text, details = cheapest_text(of.manifest.search[0])
        return Answer(text, Kind.SEARCH, details, cheapest_table(of.manifest.search[0]))
    impact = find_impact(of)
    if impact is not None:
        return Answer(impact_text(impact), Kind.IMPACT, tuple(impact_details(impact)), median_table(of))
    table = phase_table(of) or event_table(of) or rate_table(of)
    if extras.comparisons and len(_finished_arms(of, extras)) != 1:
        return replace(_comparison_answer(of, extras), table=table)
    missing = _incomparable_reason(of, extras)
    if missing is not None:
        return Answer(missing, Kind.INCOMPARABLE, tuple(_reasons(of)), table)
    if of.manifest.counts_instructions:
        (arm, *_) = counted_arms(of.run)
        return Answer(f"{gettext('Instructions')} ({gettext('a transaction')}): {arm.instructions:,.0f}", Kind.NOTHING)
    return _of_one_arm(of, extras, table)


def _of_settings(found: SearchRecord) -> Answer:
    text, details = settings_text(found)
    return Answer(text, Kind.SEARCH, details, settings_table(found))


def _of_one_arm(of: Digest, extras: Extras, table: Table | None) -> Answer:
    queries = [line for each in all_figures().values() for line in each.answer(of)]
    if queries:
        return Answer(queries[0], Kind.QUERIES, tuple(queries[1:]))
    found = search_lines(of.manifest)
    if len(found) == 1:
        return Answer(f"{of.server_name(next(iter(of.named)))}: {found[0]}", Kind.SEARCH)
    if found:
        return Answer(found[0], Kind.SEARCH, tuple(found[1:]))
    phases = phases_text(of)
    if phases is not None:
        return Answer(phases, Kind.PHASES, (), table)
    if of.has_groups:
        first, *details = [*not_served(of), groups_text(of)]
        return Answer(first, Kind.GROUPS, tuple(details))
    rates = rates_text(of)
    if rates is not None:
        failures = failure_lines(of)
        first, *details = [*failures, rates] if fails_much(of) else [rates, *failures]
        return Answer(first, Kind.RATES, (*details, *rate_answers(of)), table)
    price = _million(of.best, extras) if of.best is not None else None
    text = _with_price(peaks_text(of), extras, price)
    return Answer(text, Kind.PEAK, (*edges(of), *spread(of)))


# ---- several arms ----


def _comparison_answer(of: Digest, extras: Extras) -> Answer:
    chief = chief_of(extras.comparisons)
    text = comparison_sentence(chief)
    if _verdict(chief) is not Verdict.INCONCLUSIVE:
        text = _priced_arms(text, of, chief, extras)
    settle = next_step(chief)
    confounded = confounded_line(chief)
    details = [*cause_lines(chief), *([confounded] if confounded else []), *_left_out(of, extras)]
    details += [*point_counts(chief), *([settle] if settle else []), *failure_lines(of), *kept_up(of)]
    others = [each for each in extras.comparisons if each is not chief]
    told = [comparison_sentence(each) for each in others if _has_interval(each)]
    details += told[:MOST_OTHERS]
    if len(told) > MOST_OTHERS:
        details.append(gettext("and {count} more", count=len(told) - MOST_OTHERS))
    without = [each.other for each in others if not _has_interval(each)]
    if without:
        details.append(gettext("{arms}: too few finished trials for an interval", arms=enumeration(without)))
    return Answer(text, Kind.COMPARISON, (*details, *search_lines(of.manifest)), chief=chief)


def _left_out(of: Digest, extras: Extras) -> Iterator[str]:
    if extras.left_out:
        yield ngettext(
            "{count} of {total} trials is left out, because the audit found it invalid",
            "{count} of {total} trials are left out, because the audit found them invalid",
            len(extras.left_out),
            total=len(of.run.trials),
        )


def _has_interval(of: Comparison) -> bool:
    return of.chief is not None and of.chief.interval is not None


def chief_of(comparisons: Sequence[Comparison]) -> Comparison:
    """Return the comparison with the largest effect, preferably a significant one; without intervals, the first."""
    told = [(each, chief.interval) for each in comparisons if (chief := each.chief) and chief.interval]
    settled = [each for each in told if _verdict(each[0]) is not Verdict.INCONCLUSIVE]
    return max(settled or told, key=lambda each: abs(each[1].mean))[0] if told else comparisons[0]


def _verdict(of: Comparison) -> Verdict:
    return of.chief.verdict if of.chief is not None else Verdict.INCONCLUSIVE


def _finished_arms(of: Digest, extras: Extras) -> set[str]:
    series = (point.series for point in of.points if point.finished)
    return {extras.arms[each] for each in series if each in extras.arms}


def _incomparable_reason(of: Digest, extras: Extras) -> str | None:
    """Return why arms of the plan could not be compared; None if the plan has none."""
    every = list(dict.fromkeys(extras.arms.values()))
    if len(every) < 2:
        return None
    finished = _finished_arms(of, extras)
    without = [arm for arm in every if arm not in finished]
    if without:
        return ngettext(
            "Nothing to compare: {arms} has no finished trial",
            "Nothing to compare: {arms} have no finished trial",
            len(without),
            arms=enumeration(without),
        )
    return gettext("Nothing to compare: {arms} have no point in common", arms=enumeration(every))


def _with_price(text: str, extras: Extras, price: str | None) -> str:
    if price is None or extras.prices is None:
        return text
    return gettext(
        "{claim}; a million transactions cost {price} {currency}",
        claim=text,
        price=price,
        currency=extras.prices.currency,
    )


def _priced_arms(text: str, of: Digest, chief: Comparison, extras: Extras) -> str:
    """Return both arms' prices at their highest peaks; nothing if one of them has none."""
    base, other = (_arm_price(of, arm, extras) for arm in (chief.base, chief.other))
    if base is None or other is None or extras.prices is None:
        return text
    return gettext(
        "{claim}; a million transactions cost {price} {currency} ({other}), {base_price} {currency} ({base})",
        claim=text,
        price=other,
        base_price=base,
        currency=extras.prices.currency,
        other=chief.other,
        base=chief.base,
    )


def _arm_price(of: Digest, arm: str, extras: Extras) -> str | None:
    curves = [curve for curve in of.curves if extras.arms.get(curve.series) == arm]
    best = max(curves, key=lambda curve: curve.peak.tps.mean, default=None)
    return _million(best, extras) if best is not None else None


def _million(curve: ScalingCurve, extras: Extras) -> str | None:
    price = curve_price(curve, extras.prices)
    return numbers.round_text(price.per_million) if price is not None else None


# ---- no finished trial ----


def _reasons(of: Digest) -> Iterator[str]:
    first: dict[str, int] = {}
    for trial in of.unfinished:
        if trial.failure is not None:
            first.setdefault(trial.failure.message, trial.number)
    for message, number in list(first.items())[:MOST_REASONS]:
        yield gettext("trial {number}: {message}", number=number, message=message)


def answer_json(of: Digest, extras: Extras) -> dict[str, Any]:
    """Return the answer of a run; `docs/reference/analysis.md` describes the keys."""
    said = answer(of, extras)
    chief = said.chief
    others = [each for each in extras.comparisons if each is not chief]
    return {
        "kind": said.kind.value,
        "text": sentence(said.text),
        "details": [sentence(each) for each in said.details],
        "valid": said.kind not in (Kind.NOTHING, Kind.INCOMPARABLE) and not said.invalid,
        "invalid": [
            {"rule": each.rule, "trials": each.trials, "message": each.message} for each in refusing_findings(extras)
        ],
        "left_out": sorted(extras.left_out),
        "verdict": chief.chief.verdict.value if chief is not None and chief.chief is not None else None,
        "comparisons": [comparison_json(each) for each in ([chief, *others] if chief is not None else [])],
        "noise": noise_json(noise_grade(of, chief)),
        "endurance": endurance_json(extras),
        "peaks": _peaks(of, said),
        "promises": promises_json(said.promises),
        "rates": _rates(of),
        "phases": _phases(of),
        "events": events_json(of),
        "outages": outages_json(outages_of(of)),
        "impact": impact_json(of),
        "search": [each.model_dump(mode="json") for each in of.manifest.search],
    }


def _peaks(of: Digest, said: Answer) -> list[dict[str, Any]]:
    if said.kind not in (Kind.PEAK, Kind.COMPARISON) or rated_points(of):
        return []
    return [
        {**_series(each.point.series), "clients": each.point.clients, "tps": numbers.estimate_json(each.tps)}
        for each in peaks(of)
    ]


def _rates(of: Digest) -> list[dict[str, Any]]:
    return [
        {
            **_series(point.series),
            "clients": point.clients,
            "rate": point.point.rate,
            "tps": numbers.estimate_json(point.tps),
            "served": served_share(of, point),
            "kept_up": has_kept_up(of, point),
            "latency_ns": None
            if point.latency is None
            else {"p50": point.latency.p50, "p99": point.latency.p99, "max": point.latency.max},
        }
        for point in rated_points(of)
    ]


def _phases(of: Digest) -> list[dict[str, Any]]:
    return [
        {
            **_series(phase.point.series),
            "clients": phase.point.clients,
            "phase": phase.name,
            "result": phase.result,
            "tps": numbers.estimate_json(phase.tps),
            "p50_ns": phase.percentiles_ns("p50"),
            "p99_ns": phase.percentiles_ns("p99"),
            "unserved": phase.unserved,
        }
        for phase in phases_of(of)
    ]


def _series(series: Series) -> dict[str, Any]:
    return {"target": series.target, **series.parameters()}
