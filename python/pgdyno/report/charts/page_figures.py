"""The charts of the page: selection, content and order."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from markupsafe import Markup

from pgdyno.analyse.over_time.timeline import Timeline, trial_timeline
from pgdyno.analyse.scaling import NotFitted, ScalingCurve, UslFit, fitted_line
from pgdyno.analyse.series import Series
from pgdyno.analyse.summary import PointSummary
from pgdyno.records import ConfirmedDifference, Outcome, SearchRecord, TrialRecord
from pgdyno.records.base import FEWEST_PAIRS
from pgdyno.report import sentences
from pgdyno.report.answers.loads.impact import find_impact, operation_name
from pgdyno.report.answers.loads.rates import has_rates
from pgdyno.report.answers.searches import confirmed_search, confirmed_title, goal_words
from pgdyno.report.charts.interval_bars import confirmed_chart
from pgdyno.report.charts.labels import MOST_ENDS, marker, room_for
from pgdyno.report.charts.latency import PERCENTILES, SpectrumLine, latency_chart, latency_drawn, spectrum_chart
from pgdyno.report.charts.layout import Layout, label_column, tick_name
from pgdyno.report.charts.operation import operation_chart, operation_lines
from pgdyno.report.charts.palette import MARKERS, Look
from pgdyno.report.charts.scaling import Fitted, dots_chart, scaling_chart
from pgdyno.report.charts.svg import Drawing, element, line, linear_ticks
from pgdyno.report.charts.timeline import TrialStrip, timeline_chart
from pgdyno.report.report_content import NO_EXTRAS, Digest, Extras
from pgdyno.report.terminal.scaling_chart import scaling_lines
from pgdyno.report.translation import gettext

BOTH_LAYOUTS_UP_TO = 12
"""With more strips than this, the folded ones have no narrow form, to keep the file small."""
STRIPS_AT_MOST = 40
NO_FITS: Mapping[Series, UslFit | NotFitted] = MappingProxyType({})
FITTED_UP_TO = 4
"""Largest number of curves with the line of the Universal Scalability Law."""
CONFIRMED = "confirmed"
COLUMNS = {Layout.WIDE: 6, Layout.HALF: 3, Layout.NARROW: 3}


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart with the sentence that it supports; drawn when a page requests one of its forms."""

    name: str
    title: str
    drawn: Callable[[Layout], Markup]
    """One drawing, or several in a column."""
    has_narrow: bool = True
    """Otherwise the wide form scrolls on narrow screens."""
    legend: Sequence[tuple[str, Markup]] = ()
    legend_look: str = ""
    """CSS class: `narrow` if wide forms name their lines at the ends."""
    typed: Callable[[int], Sequence[str]] | None = None
    """The chart in so many columns of a terminal, if it has that form; no lines without room."""

    @property
    def wide(self) -> Markup:
        return self.drawn(Layout.WIDE)

    @property
    def half(self) -> Markup:
        return self.drawn(Layout.HALF)

    @property
    def narrow(self) -> Markup | None:
        return self.drawn(Layout.NARROW) if self.has_narrow else None


def curves_figure(
    of: Digest, fits: Mapping[Series, UslFit | NotFitted] = NO_FITS, extras: Extras = NO_EXTRAS
) -> Figure | None:
    """Return throughput by clients; if only one number of clients was tried, the series in rows.

    None in an open loop, in which the plan sets the throughput. Of a search for settings, the pairs that confirm its
    result.
    """
    searched = confirmed_search(of.manifest)
    if searched is not None:
        return _confirmed_figure(*searched)
    if has_rates(of) or of.has_groups:
        return None
    if any(len(curve.points) > 1 for curve in of.curves):
        title, fitted = sentences.scaling_title(of, extras), fitted_lines(of, fits)

        def draw(layout: Layout) -> Drawing:
            return scaling_chart(of.curves, of.named, title, layout, fitted, sides_of(of))

        figure = _with_legend(of, drawn_figure("scaling", title, draw))
        return replace(figure, typed=lambda width: scaling_lines(of.curves, of.named, width))
    if len(of.curves) > 1:
        points = [curve.peak for curve in of.curves]
        if of.manifest.finds_settings:
            # single trials of proposals prove nothing, and their best is too good
            points = [each for each in points if len(each.summary.finished) >= FEWEST_PAIRS] or points
        title = sentences.dots_title(of, points, extras)
        return drawn_figure("throughput", title, lambda layout: dots_chart(points, of.named, title, layout))
    return None


def _confirmed_figure(found: SearchRecord, confirmed: ConfirmedDifference) -> Figure:
    title, metric, look = confirmed_title(found), goal_words(found), Look(1, 0)
    return drawn_figure(CONFIRMED, title, lambda layout: confirmed_chart(confirmed, metric, look, title, layout))


def latency_figure(of: Digest) -> Figure | None:
    """Return latency by clients; None with fewer than two points."""
    points = [point for point in of.points if latency_drawn(point)]
    if not latency_there(of):
        return None
    title = sentences.latency_title(of)
    figure = drawn_figure(
        "latency", title, lambda layout: latency_chart(points, of.named, title, layout, sides_of(of)[0])
    )
    return _with_legend(of, figure)


def _with_legend(of: Digest, figure: Figure) -> Figure:
    swatches = [(name, swatch(look)) for name, look in legend(of)]
    # names at the ends of lines need room; a legend has it
    return replace(figure, legend=swatches, legend_look="narrow" if len(of.named) <= MOST_ENDS else "all")


def fitted_lines(of: Digest, fits: Mapping[Series, UslFit | NotFitted]) -> Fitted:
    """Return the fitted law for few curves: more would hide each other."""
    if len(of.curves) > FITTED_UP_TO:
        return {}
    return {each.series: fitted_line(each, fits[each.series]) for each in of.curves if each.series in fits}


def operation_figure(of: Digest) -> Figure | None:
    """Return the seconds before, during and after the run's operation; None without one."""
    found = find_impact(of)
    lines = operation_lines(of, found) if found is not None else []
    if found is None or not lines:
        return None
    title = gettext("Second by second, with {operation} and without it", operation=operation_name(found.event))
    figure = drawn_figure("operation", title, lambda layout: operation_chart(lines, found, title, layout))
    return replace(_with_legend(of, figure), legend_look="all")


def sides_of(of: Digest) -> tuple[float, float]:
    """Return the room left and right of both charts by clients: they are aligned on one axis."""
    most = max((point.tps.high for curve in of.curves for point in curve.points), default=0.0)
    left = max(label_column([tick_name(tick) for tick in linear_ticks(most)]), label_column(["0.0005"]))
    # a single curve's percentiles are named at their ends
    return left, room_for([name for name, _ in PERCENTILES]) if len(of.curves) == 1 and latency_there(of) else 8.0


def latency_there(of: Digest) -> bool:
    return not of.has_groups and len({point.clients for point in of.points if latency_drawn(point)}) > 1


def spectrum_figure(of: Digest) -> Figure | None:
    """Return spectra of each series' peak; for a single series, of its first, knee, peak and last point."""
    if len(of.curves) == 1:
        chosen = [
            (point, Look((of.named[point.series].look.colour), at % len(MARKERS)))
            for at, point in enumerate(_chosen_points(of.curves[0]))
        ]
    else:
        chosen = [(curve.peak.summary, of.named[curve.series].look) for curve in of.curves]
    is_alike = len({point.clients for point, _ in chosen}) == 1
    lines = [
        SpectrumLine(name, short if is_alike else name, short, look, point.histogram)
        for point, look in chosen
        if point.histogram is not None
        for name, short in [(of.point_name(point), _short_name(of, point))]
    ]
    if not lines:
        return None
    best = of.best
    at = next((at for at, (point, _) in enumerate(chosen) if best is not None and point is best.peak.summary), 0)
    title = sentences.spectrum_title(lines[min(at, len(lines) - 1)])
    return drawn_figure("spectrum", title, lambda layout: spectrum_chart(lines, title, layout))


def _chosen_points(curve: ScalingCurve) -> list[PointSummary]:
    points = (curve.points[0], curve.knee, curve.peak, curve.points[-1])
    return [point.summary for point in curve.points if point in points]


def _short_name(of: Digest, point: PointSummary) -> str:
    return of.named[point.series].name if len(of.curves) > 1 else of.point_name(point)


@dataclass(frozen=True, slots=True)
class Strips:
    """The timelines: those of the points in the headline, and the rest."""

    shown: tuple[Figure, ...]
    folded: tuple[Figure, ...]
    left_out: int
    """Points whose strip is not on the page."""


NO_STRIPS = Strips((), (), 0)


def timeline_figures(of: Digest) -> Strips:
    """Return a strip per point. Peaks (and knee and last point of a single series) are shown with their p99."""
    first = {id(curve.peak.summary) for curve in of.curves}
    if len(of.curves) == 1:
        curve = of.curves[0]
        first |= {id(point.summary) for point in (curve.knee, curve.points[-1]) if point is not None}
    trials = {trial.number: trial for trial in of.run.trials}
    many = len(of.points) > BOTH_LAYOUTS_UP_TO
    shown: list[Figure] = []
    folded: list[Figure] = []
    left_out = 0
    for at, point in enumerate(of.points):
        if not any(len(of.run.seconds(number)) for number in (*point.finished, *point.failed)):
            continue
        is_first = id(point) in first and len(shown) < BOTH_LAYOUTS_UP_TO
        if not is_first and len(folded) >= STRIPS_AT_MOST:
            left_out += 1
            continue
        figure = _strip(of, point, trials, f"time-{at}", with_p99=is_first, narrow=is_first or not many)
        (shown if is_first else folded).append(figure)
    return Strips(tuple(shown), tuple(folded), left_out)


def _strip(
    of: Digest, point: PointSummary, trials: dict[int, TrialRecord], name: str, *, with_p99: bool, narrow: bool
) -> Figure:
    strips = [
        TrialStrip(number, trial_timeline(of.run, number, percentiles=with_p99), _problem(trials[number]))
        for number in sorted({*point.finished, *point.failed})
    ]
    timelines: list[Timeline] = [strip.timeline for strip in strips if strip.problem is None]
    title = sentences.timeline_title(of.point_name(point), timelines)
    look = of.named[point.series].look

    def rows(layout: Layout) -> Markup:
        columns = min(COLUMNS[layout], len(strips))
        drawn = [
            timeline_chart(
                strips[at : at + columns], look, title, layout, columns=columns, with_p99=with_p99, among=strips
            )
            for at in range(0, len(strips), columns)
        ]
        return Markup("").join(_render(each, f"{name}-{row}", layout) for row, each in enumerate(drawn))

    return Figure(name, title, rows, narrow)


def _problem(trial: TrialRecord) -> str | None:
    return None if trial.outcome is Outcome.FINISHED else gettext(trial.outcome.value)


def drawn_figure(name: str, title: str, draw: Callable[[Layout], Drawing]) -> Figure:
    return Figure(name, title, lambda layout: _render(draw(layout), name, layout))


def _render(drawing: Drawing, name: str, layout: Layout) -> Markup:
    return drawing.render(f"{name}-{layout.value}", f"chart {layout.value}")


def legend(of: Digest) -> Sequence[tuple[str, Look]]:
    """Return names and looks of the series, if there are several."""
    return [(each.name, each.look) for each in of.named.values()] if len(of.named) > 1 else []


def swatch(look: Look) -> Markup:
    """Return a series' line and mark, for the legend."""
    return element(
        "svg",
        line(0, 8, 28, 8, look.line),
        marker(14, 8, look),
        viewBox="0 0 28 16",
        width=28.0,
        height=16.0,
        class_="cell",
        aria_hidden="true",
    )
