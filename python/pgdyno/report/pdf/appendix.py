"""The appendix after the two pages, in the order of the HTML report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from pgdyno.report.charts.timeline_strips import strip_figures
from pgdyno.report.html import Content
from pgdyno.report.pdf.first_page import told_notes
from pgdyno.report.pdf.page_blocks import (
    Block,
    breakable,
    code,
    drawings,
    figure,
    heading,
    line,
    listed,
    pairs,
    rows_table,
    section_blocks,
    table,
)
from pgdyno.report.report_tables import Table
from pgdyno.report.sections.validity import Reason
from pgdyno.report.translation import capital, gettext, ngettext, sentence


def appendix(content: Content) -> list[Block]:
    """Return every section that has content."""
    return list(chain.from_iterable(section(content) for section in _SECTIONS))


def _validity(content: Content) -> Iterator[Block]:
    validity = content["validity"]
    if validity is not None:
        yield heading(gettext("Validity"))
        summary = ngettext(
            "{summary}; n = {count:,} trial.",
            "{summary}; n = {count:,} trials.",
            len(content["trials"]),
            summary=validity.summary,
        )
        yield line(summary, "quiet")
        notes = ngettext("{count:,} note", "{count:,} notes", len(validity.notes))
        unchecked = gettext("{count} not checked", count=len(validity.unchecked))
        for name, reasons in (("", validity.reasons), (notes, validity.notes), (unchecked, validity.unchecked)):
            if reasons:
                yield from [heading(name, 2)] if name else []
                yield {"kind": "reasons", "rows": [_reason(each) for each in reasons], "keep": 0}
    if content["notes"]:
        yield heading(gettext("Caveats"))
        yield listed(told_notes(content))


def _reason(of: Reason) -> Block:
    return {
        "word": of.word,
        "look": of.verdict,
        "rule": of.name,
        "message": breakable(sentence(of.message)),
        "advice": breakable(f"{capital(of.advice)}.") if of.advice else "",
        "evidence": [breakable(line) for line in of.evidence],
        "source": breakable(f"{capital(of.source)}.") if of.evidence else "",
    }


def _comparison(content: Content) -> Iterator[Block]:
    if not (content["comparisons"] or content["published"]):
        return
    yield heading(gettext("Comparison"))
    for each in content["comparisons"]:
        yield heading(breakable(each.sentence), 2)
        yield from [line(sentence(each.settle))] if each.settle else []
        yield from [figure(each.figure)] if each.figure is not None else []
        yield table(each.table)
        yield from (line(sentence(warning), "quiet") for warning in each.warnings)
    if content["further"]:
        yield line(
            gettext(
                "{count} further comparisons: {command} has all.", count=content["further"], command="pgdyno compare"
            ),
            "quiet",
        )
    if content["published"]:
        yield heading(gettext("Published vs measured"), 2)
        yield table(content["published"])
        yield listed(content["published_notes"])


def _points(content: Content) -> Iterator[Block]:
    if not content["rows"]:
        return
    yield heading(gettext("Points"))
    yield from [table(content["peaks"])] if content["peaks"] and content["comparisons"] else []
    names = content["parameters"]
    rows = []
    for row, bar, spark in content["rows"]:
        cells = [*row.names, row.clients, row.mark, row.tps, row.half, _picture(bar)]
        rows.append([*cells, row.mean, row.p50, row.p95, row.p99, row.max, row.errors, row.trials, _picture(spark)])
    caption = gettext(
        "Every point over its finished trials: ± is half of the 95 % interval; percentiles are of all transactions "
        "together"
    )
    first = (
        *names,
        gettext("clients"),
        "",
        "tps",
        "±",
        gettext("from zero"),
        gettext("mean, ms"),
        "p50, ms",
        "p95, ms",
        "p99, ms",
    )
    headings = (*first, gettext("max, ms"), gettext("errors"), gettext("trials"), gettext("second by second"))
    yield rows_table(caption, headings, rows, len(names))
    yield from _tables(content["errors"], content["orders"], content["sweep"])


def _picture(markup: str) -> Block | str:
    drawn = drawings(markup)
    return {"drawing": drawn[0]} if drawn else ""


def _law(content: Content) -> Iterator[Block]:
    if content["usl"]:
        yield heading(gettext("The scalability law"))
        yield listed(content["usl"])


def _latency(content: Content) -> Iterator[Block]:
    if not (content["spectrum"] or content["heats"]):
        return
    over_time = gettext("Latency by percentile and over time")
    yield heading(over_time if content["heats"] else gettext("Latency by percentile"))
    if content["spectrum"]:
        yield figure(content["spectrum"])
        yield table(content["spectrum_table"])
    if content["loops"]:
        yield figure(content["loops"][0])
        yield table(content["loops"][1])
    for picture, _ in content["heats"]:
        yield figure(picture)


def _times(content: Content) -> Iterator[Block]:
    if not content["trials"]:
        return
    yield heading(gettext("Second by second"))
    times = content["times"]
    chosen = next((trial for trial in times["trials"] if trial["n"] == times["chosen"]), None)
    if chosen is not None:
        yield heading(breakable(f"{gettext('Trial')} {chosen['n']}: {chosen['name']}"), 2)
        yield from (figure(each) for each in strip_figures(chosen, times["cores"]))
    if content["strips"].shown:
        yield heading(gettext("Points with all their trials"), 2)
        yield from (figure(each) for each in content["strips"].shown)
    yield from _tables(content["trial_table"], content["replica_table"])


def _endurance(content: Content) -> Iterator[Block]:
    if content["endurance"]:
        yield heading(gettext("Endurance"))
    for each in content["endurance"]:
        yield line(sentence(each))


def _dips(content: Content) -> Iterator[Block]:
    dips = content["dips"]
    if dips is None:
        return
    yield heading(gettext("Dips"))
    yield line(dips.summary)
    yield from _tables(dips.table)
    if dips.tries:
        yield heading(gettext("What to try next"), 2)
    for each in dips.tries:
        yield line(gettext("{cause}: {why}. In the plan:", cause=capital(each.cause), why=each.why))
        yield code(each.fragment)


def _listed(content: Content) -> Iterator[Block]:
    for each in content["listed"]:
        rest = list(section_blocks(each)) if not each.section.on_second_page else []
        rest += chain.from_iterable((heading(folded.title, 2), table(folded.table)) for folded in each.folded)
        if rest:
            yield heading(each.section.title())
            yield from rest


def _failed(content: Content) -> Iterator[Block]:
    if content["unfinished"]:
        yield heading(gettext("Trials that did not finish"))
        yield table(content["failed_table"])


def _differences(content: Content) -> Iterator[Block]:
    if content["differences"] or content["settings"]:
        yield heading(gettext("Differences"))
        yield from _tables(*content["differences"], content["settings"])


def _plan(content: Content) -> Iterator[Block]:
    manifest = content["manifest"]
    yield heading(gettext("Plan"))
    if manifest.imported is not None:
        files = ", ".join(file.path for file in manifest.imported.files)
        yield line(gettext("There was none: the figures were imported from {files}.", files=files))
    else:
        about = f"{content['description']} " if content["description"] else ""
        resolved = gettext("As resolved: every default filled in. Its source was {file}.", file=manifest.plan_source)
        yield line(f"{about}{resolved}")
    yield from (line(sentence(each), "quiet") for each in content["disturbances"])
    yield from [line(sentence(content["prepared"]), "quiet")] if content["prepared"] else []
    if manifest.imported is None:
        yield code(content["plan"])
        yield heading(gettext("To repeat the run"), 2)
        yield line(gettext("Save the plan above as {file}, then:", file="plan.toml"))
        yield code(content["again"])


def _environment(content: Content) -> Iterator[Block]:
    yield heading(gettext("Environment"))
    yield pairs(content["host"])
    yield from _tables(content["servers"], content["generators"])
    yield heading(gettext("Raw data"))
    where = gettext(
        "Every figure here comes from the run folder {folder}: records as JSON, tables as Parquet, latency histograms "
        "as HDR blobs. DuckDB can query the folder directly:",
        folder=content["location"],
    )
    yield line(where)
    yield code(content["query"])


def _tables(*tables: Table | None) -> Iterator[Block]:
    yield from (table(each) for each in tables if each is not None)


_SECTIONS: tuple[Callable[[Content], Iterable[Block]], ...] = (
    _validity,
    _comparison,
    _points,
    _law,
    _latency,
    _times,
    _endurance,
    _dips,
    _listed,
    _failed,
    _differences,
    _plan,
    _environment,
)
