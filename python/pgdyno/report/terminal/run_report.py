"""A run in a terminal: the plan's question, the blocks of its sections, the answer."""

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from pgdyno.records.rate_unit import counts_queries
from pgdyno.report import sentences
from pgdyno.report.answers.answer import Answer, Kind
from pgdyno.report.report_content import Digest, Extras
from pgdyno.report.sections.draft import Draft
from pgdyno.report.sections.section_list import filled_sections
from pgdyno.report.terminal.block_lines import block_lines, table_lines, text_lines
from pgdyno.report.terminal.summary_file import Layout, print_lines
from pgdyno.report.terminal.text_drawing import RED
from pgdyno.report.translation import current_language, gettext, sentence, use_language


def print_report(of: Digest, console: Console, extras: Extras, last: Sequence[str] = ()) -> None:
    """Write `of` to `console`; without charts and colours if that is not a terminal, or not Unicode.

    `last` are lines of the command that precede the final answer.
    """
    print_lines(all_lines(of, Layout.for_console(console), extras, last), console)


def all_lines(of: Digest, layout: Layout, extras: Extras, last: Sequence[str] = ()) -> list[Text]:
    """Return the sections, `last`, the key figures and the answer."""
    room, draft = layout.room, Draft.short(of, extras)
    with use_language(current_language(), queries=counts_queries(of.run.trials)):
        lines = text_lines(sentences.question(of.manifest), room, "bold")
        lines += text_lines(sentences.conditions(of), room, "dim")
        lines += [line for each in filled_sections(draft).values() for line in block_lines(each, layout)]
        lines += [Text(each) for each in ("", *last) if last]
        key_lines = [line for each in draft.key_lines() for line in text_lines(each, room, indent=4)]
        lines += [Text(""), *key_lines] if key_lines else []
        return [*lines, *_answer_lines(draft.said, layout)]


def _answer_lines(said: Answer, layout: Layout) -> list[Text]:
    room, lines = layout.room, [Text("")]
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
