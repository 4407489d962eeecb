"""Every trial second by second, its dips, and the trends of long ones."""

from collections.abc import Iterator

from markupsafe import Markup

from pgdyno.report.answers.endurance import endurance_lines
from pgdyno.report.answers.loads.event_figures import event_table
from pgdyno.report.charts.page_figures import NO_STRIPS, timeline_figures
from pgdyno.report.report_content import median_trial
from pgdyno.report.report_tables import trial_table
from pgdyno.report.run_notes import background_table, pooler_table, replica_table
from pgdyno.report.sections.draft import Draft, Section
from pgdyno.report.sections.over_seconds.cloud_metrics import rented_count
from pgdyno.report.sections.over_seconds.dips import Dips, dip_section
from pgdyno.report.sections.over_seconds.timelines import Steps, timeline_data, timeline_json
from pgdyno.report.sections.section_blocks import Absence, Block, Code, Folded, Heading, Items, TrialTimeline
from pgdyno.report.table import Table, first_rows
from pgdyno.report.translation import capital, gettext, gettext_noop, ngettext, sentence


def _blocks(draft: Draft) -> list[Block]:
    of, extras = draft.of, draft.extras
    if of.manifest.counts_instructions:
        # its seconds are those of a server under Valgrind
        return []
    trials = of.run.trials
    found = [background_table(trials), replica_table(trials), pooler_table(trials), _events(draft)]
    beside = [table for table in found if table is not None]
    endurance = [sentence(line) for line in endurance_lines(of, extras)]
    if draft.brief:
        shown = [block for table in beside for block in first_rows(table)]
        return [*shown, Items(endurance)] if endurance else [*shown]
    dips = dip_section(of, draft.dips, extras.explained) if draft.dips else None
    absent: list[Block] = []
    if not of.manifest.is_untimed and (dips is None or dips.table is None):
        absent = [Absence(dips.summary if dips is not None else gettext("Dips: no finished trial."))]
    if not of.run.trials:
        return absent
    return [
        _timeline(draft),
        *_strips(draft),
        Folded(gettext("Every trial as a table"), [trial_table(of), *beside]),
        *([Heading(gettext("Endurance"), "endurance"), *endurance] if endurance else []),
        *(_dips(dips, dips.table) if dips is not None and dips.table is not None else absent),
    ]


def _events(draft: Draft) -> Table | None:
    """Return what happened around each event, unless the answer shows it."""
    table = event_table(draft.of)
    return None if table == draft.said.table else table


def _timeline(draft: Draft) -> TrialTimeline:
    of, extras = draft.of, draft.extras
    chosen = median_trial(of, of.best.peak.summary).number if of.best is not None else 0
    steps = Steps.for_trials(len(of.run.trials), probed=bool(extras.probe_samples), rented=rented_count(of.run.trials))
    note = gettext(
        "{count} further trials have only throughput and p99: waits, processors, disks and WAL are shown for the "
        "median trial of each point, and for the trials with the deepest dips.",
        count=extras.unseen,
    )
    data = timeline_data(of, extras.probe_samples, draft.dips, chosen, steps)
    text = Markup(timeline_json(data))  # noqa: S704 - JSON without the characters of markup
    return TrialTimeline(text, note if extras.unseen else "")


def _strips(draft: Draft) -> Iterator[Block]:
    strips = timeline_figures(draft.of) if not draft.of.manifest.is_untimed else NO_STRIPS
    if strips.shown:
        yield Folded(gettext("Points with all their trials"), strips.shown, id="static", is_open=True)
    if strips.folded:
        count = len(strips.folded)
        if strips.shown:
            title = ngettext("{count:,} more point", "{count:,} more points", count)
        else:
            title = ngettext("{count:,} point", "{count:,} points", count)
        blocks: list[Block] = [*strips.folded]
        if strips.left_out:
            blocks.append(gettext("{count} further points: choose their trials above.", count=strips.left_out))
        yield Folded(title, blocks, is_open=not strips.shown)


def _dips(of: Dips, table: Table) -> Iterator[Block]:
    yield from (Heading(gettext("Dips"), "dips"), of.summary, table)
    if of.tries:
        yield Heading(gettext("What to try next"))
    for each in of.tries:
        yield gettext("{cause}: {why}. In the plan:", cause=capital(each.cause), why=each.why)
        yield Code(each.fragment, gettext("Plan fragment for {cause}", cause=each.cause))


SECTION = Section("time-h", gettext_noop("Second by second"), _blocks)
