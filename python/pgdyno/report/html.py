"""The report: one HTML file that loads nothing else.

Every name and message on it came from outside (a plan, a server) and is escaped; the policy in its head allows only its
own style and script, by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

from pgdyno.analyse.scaling import fit_curve
from pgdyno.records.secret_values import masked_plan
from pgdyno.report import report_tables, sentences
from pgdyno.report.analysis import usl_words
from pgdyno.report.answers.answer import answer, shows_peak
from pgdyno.report.answers.endurance import endurance_lines
from pgdyno.report.answers.noise import noise_grade
from pgdyno.report.answers.searches import confirmed_search
from pgdyno.report.charts import page_figures, palette
from pgdyno.report.charts.interval_bars import bar, sparkline
from pgdyno.report.charts.labels import MOST_ENDS
from pgdyno.report.charts.page_figures import NO_STRIPS, Figure
from pgdyno.report.charts.palette import Theme
from pgdyno.report.plan_toml import plan_toml
from pgdyno.report.report_content import Digest, Extras, Note, median_trial, notes
from pgdyno.report.report_tables import sweep_table, tpcc_table
from pgdyno.report.run_notes import disturbance_lines, preparation_line, replica_table, search_lines
from pgdyno.report.sections.cloud_metrics import rented_count
from pgdyno.report.sections.comparison import MOST_COMPARISONS, compared, published_table
from pgdyno.report.sections.dips import dip_section, dips_of
from pgdyno.report.sections.environment import (
    asked_differences,
    environment_table,
    error_table,
    failed_table,
    generator_table,
    host_facts,
    server_table,
    settings_tables,
)
from pgdyno.report.sections.key_figures import noise_number, peak_numbers, peaks_table
from pgdyno.report.sections.latency import heat_figures, is_closed, loops_figure
from pgdyno.report.sections.section_list import filled_sections
from pgdyno.report.sections.timelines import Steps, timeline_data, timeline_json
from pgdyno.report.sections.validity import validity
from pgdyno.report.translation import Language, capital, current_language, gettext, ngettext, sentence, sentence_space
from pgdyno.store.duckdb_session import reading_below

Content = dict[str, Any]
"""Values by their names in the templates."""
POINTS_NAMED = 6
"""Points that a note names; beyond that it shows their number."""
_KEPT_TOGETHER = re.compile(
    r"(?<=\d) (?=%|(?:clients?|ms|tps|cores?|trials?|workers?)\b)|(?<=\bn) (?==)|(?<=\bn =) (?=\d)"
)
"""Spaces of a heading at which a line must not break: between a figure and its unit."""


def render_content(content: Content) -> str:
    """Return the page of the output of `report_content`."""
    style, script = page_style(), page_file("script.js") + page_file("timeline.js")
    context = {
        "language": current_language().value,
        "policy": policy(style, script),
        "style": Markup(style),  # noqa: S704 - our own file
        "script": Markup(script),  # noqa: S704 - our own file
        "timeline": Markup(timeline_json(content["times"])),  # noqa: S704 - JSON without the characters of markup
        "sections": _sections(content),
        **content,
    }
    return _environment(current_language()).get_template("report.html.j2").render(context)


def report_content(of: Digest, location: str, extras: Extras) -> Content:
    """Return the content of every section, by its name in the templates; page and PDF are made of it."""
    content: Content = {
        "of": of,
        "manifest": of.manifest,
        "name": of.manifest.plan.get("name") or of.manifest.workload,
        "started": of.manifest.started_at.strftime("%Y-%m-%d %H:%M UTC"),
        "notes": [*_apart(extras), *notes(of)],
        "trials": of.run.trials,
        "unfinished": of.unfinished,
        "failed_table": failed_table(of),
        # names at the ends of lines need room; a legend has it
        "legend_class": "narrow" if len(of.named) <= MOST_ENDS else "all",
        "legend": [(name, page_figures.swatch(look)) for name, look in page_figures.legend(of)],
        "location": location,
        "query": _query(location),
        "trial_table": report_tables.trial_table(of),
        "orders": tpcc_table(of),
        "sweep": sweep_table(of),
        **_claim(of, extras),
        **_curves(of, extras),
        **_times(of, extras),
        **_about(of, extras),
    }
    filled = filled_sections(of, extras)
    absences = [each.section.absence(extras) for each in filled if not each.blocks]
    absent = [*_absent(of, content), *(each for each in absences if each)]
    listed = [each for each in filled if each.blocks]
    return {**content, "listed": listed, "proof": _proof(of, content), "absent": absent}


def _proof(of: Digest, content: Content) -> list[Figure]:
    """Return one or two figures for the first screen.

    These are the forest plot of the first comparison or, without a comparison, throughput and p99 by clients; for a
    single point, the first that exists of: open vs closed loop, throughput, the latency spectrum.
    """
    chief = content["comparisons"][0] if content["comparisons"] else None
    if chief is not None and chief.figure is not None:
        return [chief.first or chief.figure]
    if len(of.curves) == 1 and content["curves"] and content["latency"]:
        return [content["curves"], content["latency"]]
    loops = content["loops"][0] if content["loops"] else None
    return [each for each in (loops, content["curves"], content["spectrum"]) if each is not None][:1]


def _absent(of: Digest, content: Content) -> Iterator[str]:
    if not content["comparisons"] and not content["published"] and confirmed_search(of.manifest) is None:
        yield gettext("Comparison: the run has one arm.") if len(of.curves) < 2 else gettext("Comparison: none.")
    runs_once = of.manifest.scale_factor is not None
    if not content["spectrum"] and not content["heats"] and not runs_once:
        yield gettext("Latency: no histograms.")
    if runs_once:
        pass
    elif content["dips"] is None or content["dips"].table is None:
        yield content["dips"].summary if content["dips"] is not None else gettext("Dips: no finished trial.")
    if not content["differences"]:
        several = len(content["manifest"].targets) > 1
        yield (
            gettext("No other differences between the targets are known.")
            if several
            else gettext("One target: nothing differs.")
        )


def _claim(of: Digest, extras: Extras) -> dict[str, object]:
    judged = validity(extras.findings) if extras.findings is not None else None
    said = answer(of, extras)
    # the comparison in the answer comes first, and its forest plot is on the first screen
    ordered = sorted(extras.comparisons, key=lambda each: each is not said.chief)
    comparisons = compared(of, ordered)
    numbers = peak_numbers(of, of.best, extras) if of.best is not None and shows_peak(of, said) else []
    if of.points:
        numbers.insert(2, noise_number(noise_grade(of, said.chief)))
    return {
        "headline": said.text,
        "details": said.details,
        "answered": said.table,
        "conditions": sentences.conditions(of),
        "numbers": numbers,
        "peaks": peaks_table(of, extras) if len(of.curves) > 1 and said.table is None else None,
        "validity": judged,
        "struck": judged.invalid if judged is not None else (),
        "comparisons": comparisons,
        "further": max(len(extras.comparisons) - MOST_COMPARISONS, 0),
        "published": published_table(of, extras.published) if extras.published is not None else None,
        "published_notes": extras.published.source.notes if extras.published is not None else (),
        "parameters": [report_tables.parameter_heading(name) for name in of.parameters],
        "rows": _rows(of) if of.manifest.scale_factor is None else [],
        "errors": error_table(of),
    }


def _curves(of: Digest, extras: Extras) -> dict[str, object]:
    fits = {curve.series: fit_curve(curve) for curve in of.curves[: page_figures.FITTED_UP_TO]}
    usl = [(of.named[series].name, fit) for series, fit in fits.items()]
    return {
        "curves": page_figures.curves_figure(of, fits, extras),
        "latency": page_figures.latency_figure(of),
        "usl": [f"{name}: {usl_words(fit)}" for name, fit in usl] if any(len(c.points) > 1 for c in of.curves) else [],
        "spectrum": page_figures.spectrum_figure(of),
        "spectrum_table": report_tables.spectrum_table(of),
        "loops": loops_figure(of),
        "closed": is_closed(of),
        "heats": heat_figures(of),
    }


def _times(of: Digest, extras: Extras) -> dict[str, object]:
    dips = extras.dips if extras.dips is not None else dips_of(of)
    chosen = median_trial(of, of.best.peak.summary).number if of.best is not None else 0
    steps = Steps.of(len(of.run.trials), probed=bool(extras.probe_samples), rented=rented_count(of.run.trials))
    return {
        "strips": page_figures.timeline_figures(of) if of.manifest.scale_factor is None else NO_STRIPS,
        "times": timeline_data(of, extras.probe_samples, dips, chosen, steps),
        "dips": dip_section(of, dips, extras.explained) if dips else None,
        "unseen": extras.unseen,
        "endurance": endurance_lines(of, extras),
        "replica_table": replica_table(of.run.trials),
    }


def _about(of: Digest, extras: Extras) -> dict[str, object]:
    differing, settings = settings_tables(of.manifest.targets, extras.alike_settings)
    return {
        "differences": [
            each
            for each in (
                environment_table(extras.differences),
                differing,
                asked_differences(of.manifest.targets),
            )
            if each is not None
        ],
        "settings": settings,
        "description": _described(of.manifest.plan.get("description")),
        "prepared": preparation_line(of.run.trials),
        "disturbances": [*search_lines(of.manifest), *disturbance_lines(of.run.trials)],
        "plan": plan_toml(masked_plan(of.manifest.plan)),
        "again": "pgdyno plan check plan.toml\npgdyno run plan.toml",
        "host": host_facts(of),
        "servers": server_table(of.manifest.targets),
        "generators": generator_table(of),
    }


def _apart(extras: Extras) -> list[Note]:
    told = gettext("it has no point in common with the first run, and is not compared with it")
    return [Note(told, (run,)) for run in extras.apart]


def _described(text: str | None) -> str:
    return "" if not text else text if text.endswith((".", "?", "!")) else f"{text}."


def policy(style: str, script: str) -> str:
    """Return the Content-Security-Policy of a page with exactly this style and this script."""
    return (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def page_file(name: str) -> str:
    return files("pgdyno.report").joinpath("page", name).read_text(encoding="utf-8")


def page_style() -> str:
    """Return the colours of both themes, the charts' rules, then the page's own."""
    light, dark = palette.variables(Theme.LIGHT), palette.variables(Theme.DARK)
    themes = (
        f":root{{{light}color-scheme:light}}\n"
        "@media screen and (prefers-color-scheme:dark)"
        f"{{:root:not([data-theme=light]){{{dark}color-scheme:dark}}}}\n"
        f"@media screen{{:root[data-theme=dark]{{{dark}color-scheme:dark}}}}\n"
    )
    return themes + palette.fonts() + palette.chart_css() + "\n" + page_file("style.css")


@cache
def _environment(_: Language) -> Environment:
    """Keeps the compiled templates; by language, as filters may be applied to texts when a template is compiled."""
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=FunctionLoader(page_file),
    )
    environment.globals |= {"gettext": gettext, "ngettext": ngettext, "sentence_space": sentence_space}
    environment.globals |= {"marked": _marked, "code": _code, "link": _link}
    environment.filters["capfirst"] = capital
    environment.filters["sentence"] = sentence
    environment.filters["where"] = where
    environment.filters["joined"] = joined
    return environment


def _marked(text: str, **values: object) -> Markup:
    """Return a text of the page whose placeholders may be markup; everything else is escaped."""
    return escape(gettext(text)).format(**values)


def _code(text: str) -> Markup:
    return Markup("<code>{}</code>").format(text)


def _link(to: str, text: str) -> Markup:
    return Markup('<a href="{}">{}</a>').format(to, text)


def joined(text: str) -> str:
    """Return `text` in which no line breaks between a figure and its unit."""
    return _KEPT_TOGETHER.sub("\u00a0", text)


def where(points: Sequence[str]) -> str:
    if len(points) <= POINTS_NAMED:
        return "; ".join(points)
    return gettext(
        "{points} and {count} more points",
        points="; ".join(points[: POINTS_NAMED - 1]),
        count=len(points) - POINTS_NAMED + 1,
    )


def _rows(of: Digest) -> list[tuple[report_tables.PointRow, Markup, Markup]]:
    highest = max((point.tps.high for point in of.points if point.tps is not None), default=0.0)
    rows = []
    for row in report_tables.point_rows(of):
        look, tps = of.named[row.point.series].look, row.point.tps
        rows.append(
            (row, bar(tps, highest, look) if tps is not None else Markup(""), sparkline(row.point.seconds, look))
        )
    return rows


def _query(location: str) -> str:
    return (
        "SELECT trial, second, sum(succeeded) AS succeeded\n"
        f"FROM {reading_below(location, 'trials/*/intervals.parquet')}\n"
        "GROUP BY ALL ORDER BY ALL;"
    )


def _sections(context: Content) -> list[tuple[str, str]]:
    sections = [
        *((each.section.id, each.section.link(), True) for each in context["listed"] if each.section.is_first),
        ("comparison", gettext("Comparison"), context["comparisons"] or context["published"]),
        ("validity", gettext("Validity"), context["validity"] or context["notes"] or context["unfinished"]),
        ("points", gettext("Points"), context["rows"]),
        ("spectrum-h", gettext("Latency"), context["spectrum"] or context["heats"]),
        ("time-h", gettext("Second by second"), context["trials"]),
        *((each.section.id, each.section.link(), True) for each in context["listed"] if not each.section.is_first),
        ("setup", gettext("Set-up"), True),
    ]
    return [(at, name) for at, name, there in sections if there]
