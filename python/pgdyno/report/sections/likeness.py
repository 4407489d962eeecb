"""How closely a load resembled its capture: shares, times and errors by class of statements, waits, disagreements."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pgdyno.analyse.likeness import disagreement_causes
from pgdyno.effect.short_statement import short_statement
from pgdyno.records import Likeness, ReplayFigures, Summary, TrialRecord
from pgdyno.report import numbers
from pgdyno.report.report_content import Digest
from pgdyno.report.sections.draft import Draft, Section
from pgdyno.report.sections.section_blocks import Block, Folded
from pgdyno.report.table import Table
from pgdyno.report.translation import enumeration, gettext, gettext_noop, ngettext, sentence, sentence_space, translate
from pgdyno.store.probe_queries import ProbeAverages

MOST_CLASSES = 15
"""Classes that the page shows at once."""
MOST_COMPARED, MOST_IN_A_TERMINAL = 3, 2
"""Series that share a table with the capture."""
TEXT = 100
"""Characters of a statement."""
AS_NEAR = 0.05
"""Logarithms of rates that differ by less count as one rate: repeats of a replay, for instance."""
LIKE = 0.01
"""The largest difference of a share that counts as none: one point."""


@dataclass(frozen=True, slots=True)
class OwnLoad:
    """The trial of a series whose load came nearest to the capture's rate."""

    name: str
    trial: TrialRecord
    likeness: Likeness
    summary: Summary

    @property
    def per_s(self) -> float | None:
        """Return the statements a second of the trial."""
        return self.likeness.calls / self.summary.measured_s if self.summary.measured_s else None


def own_loads(of: Digest) -> list[OwnLoad]:
    """Return a trial of each series with a load from a capture: of several at other rates, the nearest to its rate."""
    found: dict[str, list[OwnLoad]] = {}
    for trial in of.run.trials:
        if trial.likeness is not None and trial.summary is not None and trial.likeness.calls:
            name = of.trial_name(trial)
            found.setdefault(name, []).append(OwnLoad(name, trial, trial.likeness, trial.summary))
    return [_representative(loads) for loads in found.values()]


def _representative(loads: Sequence[OwnLoad]) -> OwnLoad:
    """Return the trial of median p99 among those that are as near to the capture's rate as the nearest."""
    nearest = min(map(_distance, loads))
    near = [each for each in loads if _distance(each) <= nearest + AS_NEAR]
    near.sort(key=lambda each: (each.summary.latency_ns.p99 or 0) if each.summary.latency_ns is not None else 0)
    return near[(len(near) - 1) // 2]


def _distance(of: OwnLoad) -> float:
    captured = of.likeness.captured_per_s
    return abs(math.log(of.per_s / captured)) if of.per_s and captured else 0.0


def load_lines(of: Digest) -> list[str]:
    """Return some sentences for each series: how closely its load resembled the capture."""
    loads = own_loads(of)
    texts = [sentence_space().join(map(sentence, _sentences(each))) for each in loads]
    if len(loads) < 2:
        return texts
    return [gettext("{name}: {text}", name=each.name, text=text) for each, text in zip(loads, texts, strict=True)]


def _sentences(of: OwnLoad) -> Iterator[str]:
    if of.summary.replay is not None and of.summary.replay.agreement is not None:
        yield _agreement(of.summary.replay, of.summary.replay.agreement, of.likeness.true_to or 0.0)
    yield _shares(of.likeness)
    if of.summary.replay is not None:
        yield from _replay_words(of.summary.replay)
        if of.summary.replay.disagreed:
            yield from map(translate, disagreement_causes(of.likeness, of.summary))


def _agreement(of: ReplayFigures, share: float, least: float) -> str:
    # rounded down: 100 % means all
    values = {"share": f"{math.floor(10_000 * share) / 100:g}", "count": f"{of.done - of.disagreed:,}"}
    if share < least:
        return gettext(
            "true to {share} %, too little for any figure: {count} of {statements} statements had the captured result, "
            "as far as the capture knows it",
            statements=f"{of.done:,}",
            **values,
        )
    return gettext(
        "true to {share} %: {count} of {statements} statements had the captured result, as far as the capture knows it",
        statements=f"{of.done:,}",
        **values,
    )


def _shares(of: Likeness) -> str:
    points = numbers.round_text(100 * of.largest_difference, 2)
    if of.largest_difference == 0:
        return ngettext(
            "the load is like the capture: its {count:,} class of statements has the same share",
            "the load is like the capture: each of its {count:,} classes of statements has the same share",
            len(of.classes) + of.classes_left_out,
        )
    if of.largest_difference <= LIKE:
        return ngettext(
            "the load is like the capture: the share of its {count:,} class of statements differs by {points} points",
            "the load is like the capture: the shares of its {count:,} classes of statements differ by at most "
            "{points} points",
            len(of.classes) + of.classes_left_out,
            points=points,
        )
    if of.unlike_class is None:
        share = numbers.round_text(100 * of.outside / of.calls if of.calls else 0.0, 2)
        return gettext(
            "the load is not like the capture: {share} % of its statements are in none of the capture's classes",
            share=share,
        )
    worst = next((each for each in of.classes if each.number == of.unlike_class), None)
    return gettext(
        "the load is not like the capture: the share of {statement} differs by {points} points",
        statement=short_statement(worst.text, 60)
        if worst is not None
        else gettext("class {number}", number=of.unlike_class),
        points=points,
    )


KINDS = {
    "new_errors": gettext_noop("new errors"),
    "missing_errors": gettext_noop("errors that did not happen again"),
    "other_errors": gettext_noop("other errors"),
    "in_failed_transaction": gettext_noop("statements in a failed transaction"),
    "different_rows": gettext_noop("other numbers of rows"),
    "cancelled_waits": gettext_noop("cancelled waits"),
}


def _replay_words(of: ReplayFigures) -> Iterator[str]:
    if of.disagreed:
        kinds = [f"{gettext(KINDS.get(kind, kind))} {count:,}" for kind, count in of.disagreements.items() if count]
        yield gettext(
            "disagreements with the capture: {count} of {statements} statements ({kinds})",
            count=f"{of.disagreed:,}",
            statements=f"{of.done:,}",
            kinds=gettext(", ").join(kinds),
        )
    ids = of.ids
    if ids is not None and ids.mapped + ids.not_mapped + ids.ambiguous:
        yield gettext(
            "values that the server made: {mapped} sent as made in this trial, {captured} as captured ({ambiguous} of "
            "them because several statements may have made them)",
            mapped=f"{ids.mapped:,}",
            captured=f"{ids.not_mapped + ids.ambiguous:,}",
            ambiguous=f"{ids.ambiguous:,}",
        )
    if of.lateness_ns is not None:
        yield gettext(
            "{share} % of the statements began within 1 ms of their time, and 99 % within {late} ms",
            share=numbers.round_text(100 * (of.within_1ms or 0.0)),
            late=numbers.ms(of.lateness_ns.p99),
        )
    if of.not_started or of.sessions_lost:
        yield gettext(
            "statements not started: {count} of {statements}; connections lost: {sessions}",
            count=f"{of.not_started:,}",
            statements=f"{of.statements:,}",
            sessions=f"{of.sessions_lost:,}",
        )
    if of.copies_without_data:
        yield gettext(
            "COPY FROM STDIN without rows, because a log does not have them: {count}",
            count=f"{of.copies_without_data:,}",
        )


# ---- tables ----


def class_table(loads: Sequence[OwnLoad], most: int | None = None) -> Table:
    """Return the classes with the most time in the capture, and their figures in each of `loads`."""
    first = loads[0].likeness
    found = [{each.number: each for each in load.likeness.classes} for load in loads]
    rows = []
    for captured in first.classes[:most]:
        same = [each.get(captured.number) for each in found]
        rows.append(
            (
                short_statement(captured.text, TEXT),
                _percent(captured.captured_share),
                *(_percent(each.share if each else None) for each in same),
                numbers.round_or_dash(captured.captured_p50_us, 1e3),
                *(numbers.round_or_dash(each.p50_us if each else None, 1e3) for each in same),
                numbers.round_or_dash(captured.captured_p99_us, 1e3),
                *(numbers.round_or_dash(each.p99_us if each else None, 1e3) for each in same),
                f"{captured.captured_errors:,}",
                *(numbers.format_count(each.errors if each else None) for each in same),
            )
        )
    caption = gettext(
        "Statements, those with the most time in the capture first. Captured times are those on the server; times of "
        "the trial are what the client waited, network included"
    )
    ranks = (0, *(rank for rank in (0, 2, 1, 3) for _ in range(1 + len(loads))))
    return Table(caption, (gettext("statement"), *_headings(loads)), tuple(rows), 1, ranks)


def _headings(loads: Sequence[OwnLoad]) -> Iterator[str]:
    names = [each.name for each in loads] if len(loads) > 1 else [gettext("trial")]
    for unit in (gettext("calls, %"), "p50, ms", "p99, ms", gettext("errors")):
        for column in (gettext("captured"), *names):
            yield gettext("{name}: {unit}", name=column, unit=unit)


_SHORT_KINDS = {
    "new_errors": gettext_noop("new errors"),
    "missing_errors": gettext_noop("errors gone"),
    "other_errors": gettext_noop("other errors"),
    "different_rows": gettext_noop("other rows"),
    "in_failed_transaction": gettext_noop("in failed transaction"),
    "cancelled_waits": gettext_noop("cancelled waits"),
}


def divergence_table(of: OwnLoad) -> Table | None:
    """Return the classes whose results differ most from the capture; None if none does."""
    worst = of.summary.replay.worst if of.summary.replay is not None else []
    texts = {each.number: each.text for each in of.likeness.classes}
    kinds = [kind for kind in _SHORT_KINDS if any(each.disagreements.get(kind) for each in worst)]
    if not kinds:
        return None
    rows = tuple(
        (
            short_statement(texts.get(each.id) or gettext("class {number}", number=each.id), TEXT),
            *(f"{each.disagreements.get(kind, 0):,}" for kind in kinds),
            f"{each.sqlstate} {each.message}" if each.sqlstate else "",
        )
        for each in worst
    )
    caption = gettext("Statements whose results differ most from the capture, in {name}", name=of.name)
    headings = (gettext("statement"), *(gettext(_SHORT_KINDS[kind]) for kind in kinds), gettext("first error"))
    return Table(caption, headings, rows, 1)


def waits_table(loads: Sequence[OwnLoad], seen: Mapping[int, ProbeAverages]) -> Table | None:
    """Return the mean active sessions by wait; None if the capture or every trial has no samples."""
    captured = {each.wait: each.sessions for each in loads[0].likeness.waits}
    measured = [_waits(seen.get(load.trial.number)) for load in loads]
    if not captured or not any(measured):
        return None
    names = sorted(
        {*captured, *(wait for each in measured for wait in each or ())}, key=lambda wait: -captured.get(wait, 0.0)
    )
    rows = tuple((wait, *(_sessions(each, wait) for each in (captured, *measured))) for wait in names)
    caption = gettext("Mean active sessions by what they waited for, in the capture and in the trial")
    shown = [each.name for each in loads] if len(loads) > 1 else [gettext("trial")]
    return Table(caption, (gettext("wait"), gettext("captured"), *shown), rows)


def _waits(of: ProbeAverages | None) -> dict[str, float] | None:
    if of is None:
        return None
    return {f"{kind}:{name}" if name else kind: sessions for kind, name, sessions in of.waits}


def _percent(share: float | None) -> str:
    return numbers.NOTHING if share is None else f"{100 * share:.2f}"


def _sessions(of: Mapping[str, float] | None, wait: str) -> str:
    return numbers.NOTHING if of is None else f"{of.get(wait, 0.0):.2f}"


def _blocks(draft: Draft) -> list[Block]:
    of = draft.of
    loads = own_loads(of)
    if not loads:
        return []
    together = loads[: MOST_IN_A_TERMINAL if draft.brief else MOST_COMPARED]
    divergences = [table for each in together if (table := divergence_table(each)) is not None]
    blocks: list[Block] = [*load_lines(of), *divergences, class_table(together, MOST_CLASSES)]
    waits = waits_table(together, draft.extras.limits)
    if waits is not None:
        blocks.append(waits)
    if draft.brief:
        return blocks
    if len(loads[0].likeness.classes) > MOST_CLASSES:
        blocks.append(Folded(gettext("All classes of statements"), [class_table(together)]))
    for at in range(MOST_COMPARED, len(loads), MOST_COMPARED):
        some = loads[at : at + MOST_COMPARED]
        title = gettext("The same of {series}", series=enumeration([each.name for each in some]))
        blocks.append(Folded(title, [class_table(some)]))
    return blocks


SECTION = Section("load", gettext_noop("Your load"), _blocks)
