"""The comparison: its statement, its table and forest plot, and published figures."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

from markupsafe import Markup

from pgdyno.analyse.comparison import Comparison, Verdict
from pgdyno.analyse.summary import PointSummary
from pgdyno.published import Published, published, published_names
from pgdyno.records import Manifest
from pgdyno.report import numbers
from pgdyno.report.answers.comparison import low_to_high, named_arm, percent
from pgdyno.report.charts.interval_bars import MOST_ROWS, forest_chart
from pgdyno.report.charts.page_figures import Figure, drawn_figure
from pgdyno.report.charts.palette import Look
from pgdyno.report.report_content import Digest
from pgdyno.report.sections.section_blocks import Block
from pgdyno.report.table import Cell, Picture, Table, first_rows
from pgdyno.report.terminal.forest_plot import EDGE, ZERO, Forest
from pgdyno.report.translation import gettext, gettext_each, gettext_noop, translate

MOST_COMPARISONS = 8
PLOT = (8, 40)
"""Columns of a forest plot."""
MOST_PUBLISHED = 200
FIRST_ROWS = 9
"""Points of the forest plot on the first screen."""
TITLES = {
    Verdict.FASTER: gettext_noop("{other} is faster: the overall interval is outside the band"),
    Verdict.SLOWER: gettext_noop("{other} is slower: the overall interval is outside the band"),
    Verdict.SAME: gettext_noop("{other} is the same: the overall interval is within the band"),
    Verdict.INCONCLUSIVE: gettext_noop(
        "Inconclusive: the overall interval crosses an edge of the band, or there are too few pairs"
    ),
}
TITLES_OF_ONE = {
    Verdict.FASTER: gettext_noop("{other} is faster: the interval is outside the band"),
    Verdict.SLOWER: gettext_noop("{other} is slower: the interval is outside the band"),
    Verdict.SAME: gettext_noop("{other} is the same: the interval is within the band"),
    Verdict.INCONCLUSIVE: gettext_noop(
        "Inconclusive: the interval crosses an edge of the band, or there are too few pairs"
    ),
}


@dataclass(frozen=True, slots=True)
class Compared:
    of: Comparison
    figure: Figure | None
    first: Figure | None
    """Its first rows, for the first screen; None if `figure` has no more."""


def comparison_figure(of: Digest, each: Comparison, at: int) -> Compared:
    """Return a comparison with its forest plot, the one at index `at` of a page."""
    colour = next((look.look.colour for look in of.named.values() if look.name == each.other), 1 + at % 5)
    return drawn_comparison(each, colour, at)


def drawn_comparison(each: Comparison, colour: int, at: int) -> Compared:
    """Return a comparison with its forest plot in the colour of this number."""
    chief = each.chief
    verdict = chief.verdict if chief is not None else Verdict.INCONCLUSIVE
    figure = first = None
    if any(point.interval is not None for point in each.points):
        title = gettext((TITLES if len(each.points) > 1 else TITLES_OF_ONE)[verdict], other=named_arm(each, each.other))
        look = Look(colour, 0)
        figure = drawn_figure(f"forest-{at}", title, lambda layout: forest_chart(each, look, title, layout))
        if len(each.points) > FIRST_ROWS:
            words = gettext(
                "{title}. The first {count} of {all} points", title=title, count=FIRST_ROWS, all=len(each.points)
            )
            first = drawn_figure("forest", words, lambda layout: forest_chart(each, look, words, layout, FIRST_ROWS))
    return Compared(each, figure, first)


def compared_table(of: Comparison, *, plots: bool = False) -> Table:
    """Return a row per point and one for all of them; with `plots`, each has its interval on one scale."""
    show = numbers.ms if of.metric.is_latency else numbers.round_text
    unit = of.metric.unit
    forest = Forest.for_intervals(
        [each.interval for each in of.points if each.interval is not None], math.log1p(of.delta)
    )
    rows = []
    for point in [*of.points, *([of.overall] if of.overall is not None else [])]:
        known = math.isfinite(point.change)
        rows.append(
            (
                translate(point.label),
                gettext(point.verdict.value),
                show(point.base) if known else numbers.NOTHING,
                show(point.other) if known else numbers.NOTHING,
                percent(point.change).removesuffix(" %") if known else numbers.NOTHING,
                low_to_high(point.interval).removesuffix(" %") if point.interval is not None else numbers.NOTHING,
                f"{point.pairs:,}",
                percent(point.detectable, plus=False).removesuffix(" %") if point.detectable else numbers.NOTHING,
                *([Picture(Markup, partial(forest.line, point.interval), PLOT)] if plots else []),
            )
        )
    told = {
        "other": named_arm(of, of.other),
        "base": of.base,
        "metric": gettext(of.metric.words),
        "delta": percent(of.delta, plus=False),
    }
    caption = gettext(
        "{other} vs {base} by {metric}: geometric means over trials, which lie below the arithmetic means elsewhere if "
        "trials scatter; their ratio and its interval (95 %); within ±{delta} counts as the same",
        **told,
    )
    if len(of.points) > 1:
        caption = gettext(
            "{other} vs {base} by {metric}: geometric means over trials (last row: over the points, too), which lie "
            "below the arithmetic means elsewhere; their ratio and its interval (95 %, Holm's over the points); within "
            "±{delta} counts as the same",
            **told,
        )
    if not plots and len(of.points) > MOST_ROWS:
        caption += gettext(". The chart shows the first {count} points", count=MOST_ROWS)
    names = (f"{of.base}, {unit}", f"{of.other}, {unit}")
    pairs = gettext("n, pairs") if of.paired else gettext("n, trials per run")
    figures = gettext_each("change, %", "interval, %")
    headings = (*gettext_each("point", "verdict"), *names, *figures, pairs, gettext("detectable, %"))
    if not plots:
        return Table(caption, headings, tuple(rows), 2)
    edges = gettext("{zero} no difference, {edge} ±{delta}", zero=ZERO, edge=EDGE, delta=percent(of.delta, plus=False))
    return Table(caption, (*headings, Cell(edges, "words")), tuple(rows), 2, (0, 0, 4, 4, 0, 0, 1, 3, 2))


def published_table(of: Digest, data: Published) -> Table | None:
    """Return measured points with the published figure at the same clients, scale and variables, if there is any."""
    rows = [
        _published_row(of, point, row)
        for point in of.points
        if point.tps is not None
        for row in data.rows
        if _are_alike(of, point, row)
    ]
    if not rows:
        return None
    source = data.source
    when = f", {source.measured}" if source.measured else ""
    caption = gettext(
        "This run vs “{title}” ({publisher}{when}, PostgreSQL {version})",
        title=source.title,
        publisher=source.publisher,
        when=when,
        version=source.postgresql,
    )
    if len(rows) > MOST_PUBLISHED:
        caption += gettext("; the first {count} of {all} rows", count=MOST_PUBLISHED, all=f"{len(rows):,}")
    headings = gettext_each("point", "published for", "measured, tps", "published, tps", "measured / published")
    latencies = gettext_each("measured mean, ms", "published mean, ms")
    return Table(caption, (*headings, *latencies), tuple(rows[:MOST_PUBLISHED]), 2)


def asked_for(manifest: Manifest) -> Published | None:
    """Return the figures that the plan names in [published]; None without any that this version knows."""
    asked = manifest.plan.get("published") or {}
    name = asked.get("data") if isinstance(asked, Mapping) else None
    return published(name) if name in published_names() else None


def published_blocks(of: Digest) -> list[Block]:
    """Return published figures for a terminal and Markdown: a row per point and published target."""
    data = asked_for(of.manifest)
    if data is None:
        return []
    table = published_table(of, data)
    if table is None:
        known = ", ".join(_published_loads(data))
        return [f"published: “{data.source.title}” has no figure for these points: it has {known}"]
    same = [list(rows) for _, rows in groupby(table.rows, key=lambda row: row[:2])]
    rows = [(*each[0][:3], *(_span([row[at] for row in each]) for at in (3, 4))) for each in same]
    return [*first_rows(Table(table.caption, table.headings[:5], tuple(rows), 2))]


def _span(cells: Sequence[str]) -> str:
    known = sorted({each for each in cells if each != numbers.NOTHING}, key=lambda cell: float(cell.replace(",", "")))
    return numbers.NOTHING if not known else known[0] if len(known) == 1 else numbers.range_text(known[0], known[-1])


def _published_loads(data: Published) -> Iterator[str]:
    """Yield `scale 100`, `clients 1 to 64`."""
    for name in ("scale", "warehouses", "clients"):
        values = sorted({float(row[name]) for row in data.rows if name in row})
        if values:
            low, high = f"{values[0]:,.0f}", f"{values[-1]:,.0f}"
            yield f"{name} {low if low == high else numbers.range_text(low, high)}"


def _are_alike(of: Digest, point: PointSummary, row: Mapping[str, str | float]) -> bool:
    if "tps" not in row and "tpm" not in row:
        return False
    scale = point.point.scale or of.manifest.plan.get("workload", {}).get("scale")
    mine: dict[str, object] = {"clients": point.clients, "scale": scale, "warehouses": scale}
    mine |= {"protocol": point.point.protocol, "workers": point.point.workers}
    mine |= {f"variables.{name}": value for name, value in point.point.variables.items()}
    return all(_are_equal(mine[name], value) for name, value in row.items() if mine.get(name) not in (None, ""))


def _are_equal(mine: object, theirs: str | float) -> bool:
    try:
        return float(str(mine)) == float(theirs)
    except ValueError:
        return str(mine) == str(theirs)


def _published_row(of: Digest, point: PointSummary, row: Mapping[str, str | float]) -> tuple[str, ...]:
    tps = float(row["tps"]) if "tps" in row else float(row["tpm"]) / 60
    mean = point.tps.mean if point.tps is not None else math.nan
    theirs = row.get("latency_mean_ms")
    return (
        of.point_name(point),
        str(row.get("target", numbers.NOTHING)),
        numbers.estimate(point.tps),
        numbers.round_text(tps),
        f"{mean / tps:.2f}" if tps > 0 else numbers.NOTHING,
        numbers.ms(point.latency.mean if point.latency is not None else None),
        numbers.round_or_dash(None if theirs is None else float(theirs)),
    )
