"""A run in a terminal: the plan's question, the blocks of its sections, the answer."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from pgdyno.records.rate_unit import counts_queries
from pgdyno.report import sentences
from pgdyno.report.answers.answer import Kind
from pgdyno.report.report_content import Digest, Extras
from pgdyno.report.sections.draft import Draft
from pgdyno.report.sections.section_list import Content, report_content
from pgdyno.report.terminal.block_lines import UNLIMITED, block_lines, table_lines, text_lines
from pgdyno.report.terminal.summary_file import Layout, print_lines
from pgdyno.report.terminal.text_drawing import RED
from pgdyno.report.translation import current_language, gettext, sentence, use_language


def print_report(of: Digest, console: Console, extras: Extras, last: Sequence[str] = ()) -> None:
    """Write `of` to `console`; without charts and colours if that is not a terminal, or not Unicode.

    `last` are lines of the command that precede the final answer.
    """
    print_lines(all_lines(of, Layout.of(console), extras, last), console)


def all_lines(of: Digest, layout: Layout, extras: Extras, last: Sequence[str] = ()) -> list[Text]:
    """Return the report, `last`, the key figures and the answer."""
    with use_language(current_language(), queries=counts_queries(of.run.trials)):
        content = report_content(Draft(of, extras, brief=True))
        room, lines = layout.width or UNLIMITED, [Text(each) for each in ("", *last) if last]
        lines += [Text(""), *(line for each in content.key_lines() for line in text_lines(each, room, indent=4))]
        return [*report_lines(content, layout), *lines, *answer_lines(content, layout)]


def report_lines(content: Content, layout: Layout) -> list[Text]:
    """Return the report without what precedes its sections on a page."""
    room = layout.width or UNLIMITED
    lines = text_lines(sentences.question(content.draft.of.manifest), room, "bold")
    return [*lines, *text_lines(content.conditions, room, "dim"), *block_lines(content.blocks(), layout)]


def answer_lines(content: Content, layout: Layout) -> list[Text]:
    """Return the answer after an empty line."""
    room, said = layout.width or UNLIMITED, content.draft.said
    lines = [Text("")]
    table = [] if said.table is None else table_lines(said.table, layout)
    # what a search tried explains its answer; other tables lead to it
    is_before = said.kind is not Kind.SEARCH
    if is_before and table:
        lines += [*table, Text("")]
    if said.invalid:
        more = f"; {gettext('and {count} more', count=len(said.invalid) - 1)}" if len(said.invalid) > 1 else ""
        lines += text_lines(f"{gettext('Not valid:')} {said.invalid[0]}{more}", room, f"bold {RED}")
    lines += text_lines(said.text, room, "strike" if said.invalid else "bold")
    lines += [line for each in said.details for line in text_lines(sentence(each), room)]
    return lines if is_before or not table else [*lines, Text(""), *table]
