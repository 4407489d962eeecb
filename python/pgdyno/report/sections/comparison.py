"""The comparison: its statements, tables and forest plots, and published figures."""

from collections.abc import Iterator

from pgdyno.analyse.comparison import Comparison
from pgdyno.report.answers.comparison import comparison_sentence, confounded_line, next_step
from pgdyno.report.answers.searches import confirmed_search
from pgdyno.report.sections.draft import Draft, Section
from pgdyno.report.sections.figures.comparison import (
    MOST_COMPARISONS,
    Compared,
    asked_for,
    compared_table,
    published_blocks,
    published_table,
)
from pgdyno.report.sections.section_blocks import Absence, Block, Folded, Heading, Items, Paragraph, markup
from pgdyno.report.translation import gettext, gettext_noop, sentence, translate


def _blocks(draft: Draft) -> list[Block]:
    if draft.brief:
        # the answer has their sentences
        several = [each for each in draft.extras.comparisons[:MOST_COMPARISONS] if len(each.points) > 1]
        return [*(compared_table(each, plots=True) for each in several), *published_blocks(draft.of)]
    blocks: list[Block] = [block for each in draft.comparisons for block in _comparison(draft, each)]
    further = len(draft.extras.comparisons) - MOST_COMPARISONS
    if further > 0:
        text = markup("{count} further comparisons: {command} has all.", count=further, command="pgdyno compare")
        blocks.append(Paragraph(text))
    data = asked_for(draft.of.manifest)
    published = published_table(draft.of, data) if data is not None else None
    if published is not None and data is not None:
        blocks += [published, Folded(gettext("About the published figures"), [Items(data.source.notes)])]
    if blocks or confirmed_search(draft.of.manifest) is not None:
        return blocks
    one_arm = len(draft.of.curves) < 2
    return [Absence(gettext("Comparison: the run has one arm.") if one_arm else gettext("Comparison: none."))]


def _comparison(draft: Draft, each: Compared) -> Iterator[Block]:
    yield Heading(comparison_sentence(each.of), look="said")
    settle = next_step(each.of)
    if settle:
        yield sentence(settle)
    yield from draft.elsewhere(each.figure)
    yield compared_table(each.of)
    for warning in (*_confounder_words(each.of), *map(translate, each.of.warnings)):
        yield Paragraph(sentence(warning))


def _confounder_words(of: Comparison) -> list[str]:
    line = confounded_line(of)
    return [] if line is None else [line, *(translate(each.message) for each in of.confounders)]


SECTION = Section("comparison", gettext_noop("Comparison"), _blocks)
