"""Analyses of a run on request: steadiness, dips, the Universal Scalability Law, price."""

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pgdyno.analyse.capacity import Capacity
from pgdyno.analyse.history import FEWEST_RUNS, History
from pgdyno.analyse.over_time.dips import Dip, trial_dips
from pgdyno.analyse.over_time.endurance import Endurance, trial_endurance
from pgdyno.analyse.over_time.steady_state import SHORTEST, SteadyClass, SteadyState, trial_steady_state
from pgdyno.analyse.over_time.timeline import RunSource, Timeline, trial_timeline
from pgdyno.analyse.pairs import Metric
from pgdyno.analyse.price import Price, PriceList, prices_of
from pgdyno.analyse.scaling import NotFitted, Range, UslFit, fit_curve
from pgdyno.fingerprint import Weight, comparable
from pgdyno.messages import message_json
from pgdyno.records import Manifest, Outcome, TrialRecord
from pgdyno.records.promise import Promise
from pgdyno.report import numbers
from pgdyno.report.answers.comparison import percent
from pgdyno.report.answers.endurance import trends, trends_json
from pgdyno.report.answers.workload_figures import point_tables, points_json
from pgdyno.report.costs import PricedCurve, latency_target, priced_curves, rents
from pgdyno.report.report_content import Digest, digest
from pgdyno.report.sections.cost import cost_blocks
from pgdyno.report.sections.figures.comparison import published_blocks
from pgdyno.report.sections.section_blocks import Block
from pgdyno.report.terminal.block_lines import block_lines
from pgdyno.report.terminal.summary_file import Layout
from pgdyno.report.terminal.text_drawing import printable, sparkline
from pgdyno.report.translation import gettext, translate
from pgdyno.units import quantity

WIDTH = 78
"""Columns of the terminal that a table may use, indented by two below the name of one of several runs."""


@dataclass(frozen=True, slots=True)
class TrialAnalysis:
    """A finished trial."""

    trial: TrialRecord
    steady: SteadyState | None
    """None if the trial is too short."""
    dips: tuple[Dip, ...]
    endurance: Endurance | None
    """None below an hour."""


@dataclass(frozen=True, slots=True)
class RunAnalysis:
    trials: tuple[TrialAnalysis, ...]
    """Empty for queries that run once."""
    curves: tuple[PricedCurve, ...]
    prices: PriceList | None
    of: Digest
    latency: Promise | None
    """The target of the capacities."""


def analyse_run(run: RunSource, prices: PriceList | None = None, latency: Promise | None = None) -> RunAnalysis:
    """Analyse a run. Reads every trial's intervals once; `prices` default to the plan's."""
    of = digest(run)
    prices = prices if prices is not None else prices_of(run.manifest)
    latency = latency_target(prices, latency)
    finished = [trial for trial in of.run.trials if trial.outcome is Outcome.FINISHED and not of.manifest.is_untimed]
    trials = tuple(
        TrialAnalysis(
            trial,
            trial_steady_state(of.run, trial.number),
            tuple(trial_dips(of.run, trial.number)),
            trial_endurance(of.run, trial.number),
        )
        for trial in finished
    )
    return RunAnalysis(trials, tuple(priced_curves(of, prices, latency)), prices, of, latency)


def analysis_lines(found: RunAnalysis) -> Iterator[str]:
    """Describe the analysis in one sentence per line."""
    if not found.of.manifest.is_untimed:
        yield from _steady_lines(found)
        yield from _dip_lines(found)
        yield from _endurance_lines(found)
    yield from _texts([*point_tables(found.of, 1)])
    for curve in found.curves:
        yield f"{curve.name}: {usl_words(fit_curve(curve.curve))}"
    yield from _capacity_lines(found)
    yield from _texts([*cost_blocks(found.of, found.prices, found.latency), *published_blocks(found.of)])


def _texts(blocks: Sequence[Block]) -> Iterator[str]:
    yield from (line.plain for line in block_lines(blocks, Layout(WIDTH, unicode=False)))


def _steady_lines(found: RunAnalysis) -> Iterator[str]:
    known = [(each.trial, each.steady) for each in found.trials if each.steady is not None]
    short = len(found.trials) - len(known)
    if short:
        yield f"steady state: {numbers.trials(short)} measured less than {SHORTEST} s: too short to classify"
    counts = Counter(steady.kind for _, steady in known)
    if counts:
        yield "steady state: " + ", ".join(f"{counts[kind]} {kind.value}" for kind in SteadyClass if counts[kind])
    drifts = [100 * steady.visible_drift for _, steady in known if steady.kind is SteadyClass.FLAT]
    if drifts:
        low, high = (f"{each:.{0 if each >= 9.5 else 1}f}" for each in (min(drifts), max(drifts)))
        yield f"  flat: a drift of {low if low == high else f'{low} to {high}'} % would show in 80 % of such trials"
    for trial, steady in known:
        if steady.kind is not SteadyClass.FLAT:
            measured = trial_timeline(found.of.run, trial.number).measured_part
            shape = _levels(steady, measured) if steady.period_s is None else f"a cycle of {steady.period_s:.0f} s"
            yield f"  {_name(found, trial)}: {steady.kind.value}, {shape}"


def _levels(steady: SteadyState, measured: Timeline) -> str:
    from_s, to_s = measured.from_s, measured.to_s
    return ", ".join(
        f"{numbers.round_text(each.level)} tps from {from_s[each.first]:.0f} to {to_s[each.end - 1]:.0f} s"
        for each in steady.segments
    )


def _dip_lines(found: RunAnalysis) -> Iterator[str]:
    dips = [(each.trial, dip) for each in found.trials for dip in each.dips]
    lost = math.fsum(dip.loss for _, dip in dips)
    yield f"dips: {len(dips)}" + (f", {lost:,.0f} transactions lost" if dips else "")
    for trial, dip in dips:
        yield (
            f"  {_name(found, trial)}: {dip.from_s:.0f} to {dip.to_s:.0f} s, down by {100 * dip.depth:.0f} %, "
            f"{dip.loss:,.0f} transactions lost"
        )


def _endurance_lines(found: RunAnalysis) -> Iterator[str]:
    long = [(each.trial, each.endurance) for each in found.trials if each.endurance is not None]
    if not long:
        yield "endurance: no trial of an hour"
    for trial, endurance in long:
        yield f"endurance: {_name(found, trial)}, {endurance.hours:.1f} h: {trends(endurance)}"


def _name(found: RunAnalysis, trial: TrialRecord) -> str:
    return f"trial {trial.number}, {found.of.trial_name(trial)}, {numbers.clients(trial.point.clients)}"


def usl_words(usl: UslFit | NotFitted) -> str:
    """Describe a fit, or why there is none, in one line."""
    if isinstance(usl, NotFitted):
        return gettext("scalability law not fitted: {reason}", reason=translate(usl.reason))
    return gettext(
        "scalability law: contention {contention}, coherency {coherency}, peak at {clients} clients with {tps} tps; "
        "largest deviation of a point {error} %",
        contention=_range(usl.contention),
        coherency=_range(usl.coherency),
        clients=_range(usl.peak_clients),
        tps=_range(usl.peak_tps),
        error=f"{100 * usl.largest_error:.1f}",
    )


def _range(value: Range) -> str:
    fitted, low, high = map(numbers.round_text, (value.fitted, value.low, value.high))
    return f"{fitted} ({numbers.range_text(low, high)})"


def _capacity_lines(found: RunAnalysis) -> Iterator[str]:
    if found.latency is None:
        return
    if not found.curves:
        yield f"no finished trial: nothing shows whether {found.latency.text}"
    for curve in found.curves:
        name = curve.capacity_name
        if not name:
            continue
        if curve.capacity is None:
            yield f"{name}: no measured point meets {found.latency.text}"
            continue
        of, tps = curve.capacity, curve.capacity.tps
        half = "" if tps.half is None else f" (95 %: {numbers.low_to_high(tps)})"
        loop = "closed loop: users would see more" if of.closed_loop else "open loop"
        rate = of.point.point.rate
        where = numbers.clients(of.point.clients) + ("" if rate is None else f", rate {rate:,.10g},")
        yield (
            f"{name}: {numbers.estimate(tps)} tps{half} at {found.latency.text}, with "
            f"{where} and {numbers.ms(of.latency_ns)} ms ({loop})"
        )


def meets_latency(found: RunAnalysis) -> bool:
    """Return whether there are curves, and each meets the latency target of the analysis at one of its points."""
    return bool(found.curves) and all(curve.capacity is not None for curve in found.curves if curve.capacity_name)


def analysis_json(found: RunAnalysis) -> dict[str, Any]:
    """Return the analysis for programs: transactions/s, seconds since measuring began (dips: since the trial did)."""
    return {
        "trials": [
            {
                "trial": each.trial.number,
                "target": each.trial.target,
                "clients": each.trial.point.clients,
                "steady": None if each.steady is None else asdict(each.steady),
                "dips": [asdict(dip) for dip in each.dips],
                "endurance": None if each.endurance is None else trends_json(each.endurance),
            }
            for each in found.trials
        ],
        "curves": [
            {
                "name": each.name,
                "target": each.target,
                "clients": each.curve.peak.clients,
                "usl": _usl_json(fit_curve(each.curve)),
                "price": _price_json(each.price),
                "capacity": None if each.capacity is None else _capacity_json(each.capacity),
                "price_at_capacity": _price_json(each.at_capacity),
            }
            for each in found.curves
        ],
        "rented": [
            {**asdict(each), "per_million": each.per_million} for each in rents(found.of.manifest, found.of.run.trials)
        ],
        "queries": points_json(found.of),
        "prices": None if found.prices is None else found.prices.model_dump(mode="json"),
    }


def _price_json(price: Price | None) -> dict[str, Any] | None:
    return None if price is None else _finite(price.model_dump())


def _capacity_json(of: Capacity) -> dict[str, Any]:
    return {
        "latency": of.limit.text,
        "clients": of.point.clients,
        "rate": of.point.point.rate,
        "tps": of.tps.mean,
        "tps_half": of.tps.half,
        "latency_ns": of.latency_ns,
        "closed_loop": of.closed_loop,
    }


def _usl_json(usl: UslFit | NotFitted) -> dict[str, Any]:
    if isinstance(usl, NotFitted):
        told = message_json(usl.reason)
        return {"reason": told["message"], "id": told["id"], "parameters": told["parameters"]}
    return {name: _finite(value) if isinstance(value, dict) else value for name, value in asdict(usl).items()}


def _finite(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value if math.isfinite(value) else None for name, value in values.items()}


WIDEST = 60


def history_lines(
    of: History, differences: Mapping[int, Sequence[str]], not_valid: Collection[str] = ()
) -> Iterator[str]:
    """Return a heading, the course, the runs among `not_valid`, and a line for each change with `differences`."""
    metric, first, last = of.metric, of.points[0], of.points[-1]
    yield (
        f"{printable(of.workload)}, {printable(of.label)}: {metric.words} of {quantity(len(of.points), 'run')}, "
        f"{first.started_at:%Y-%m-%d} to {last.started_at:%Y-%m-%d}"
    )
    figures = [point.figure for point in of.points]
    yield f"  {sparkline(figures, WIDEST)}  {_with_unit(min(figures), metric)} to {_with_unit(max(figures), metric)}"
    invalid = [f"{printable(point.run)} (run {at})" for at, point in enumerate(of.points, 1) if point.run in not_valid]
    if invalid:
        yield f"  not valid, according to their reports: {', '.join(invalid)}"
    if of.changes is None:
        too_few = "1 run is too few" if len(of.points) == 1 else f"{len(of.points)} runs are too few"
        yield f"  {too_few} for change points, which need at least {FEWEST_RUNS}"
    elif not of.changes:
        yield "  no change of level"
    for change in of.changes or ():
        point = of.points[change.at]
        yield (
            f"  {percent(change.ratio)} at {point.started_at:%Y-%m-%d %H:%M} UTC (run {change.at + 1}, "
            f"{printable(point.run)}): {_with_unit(change.before, metric)} before, "
            f"{_with_unit(change.after, metric)} after"
        )
        for line in differences.get(change.at, ()):
            yield f"    {printable(line)}"


def fingerprint_changes(before: Manifest, after: Manifest) -> list[str]:
    """Return differences between the fingerprints of two runs that may explain a change; nothing if one has none."""
    if before.fingerprint is None or after.fingerprint is None:
        return []
    return [
        str(each.of_file or f"{each.field}: {each.a} before, {each.b} after")
        for each in comparable(before.fingerprint, after.fingerprint)
        if each.severity is not Weight.HARMLESS
    ]


def _with_unit(figure: float, metric: Metric) -> str:
    return f"{numbers.ms(figure) if metric.is_latency else numbers.round_text(figure)} {metric.unit}"
