"""The report in Markdown of 80 columns, for a mailing list or a pull request: also readable as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pgdyno.audit import Severity
from pgdyno.report.answer import answer, shows_peak
from pgdyno.report.comparison import comparison_table, sentence
from pgdyno.report.digest import Digest
from pgdyno.report.export import COLUMNS, points_markdown
from pgdyno.report.export import escaped as escape
from pgdyno.report.extras import Extras
from pgdyno.report.sections.compared import settling
from pgdyno.report.sections.four import four_numbers
from pgdyno.report.sections.validity import rule_name
from pgdyno.report.texts import gettext, translated
from pgdyno.report.texts import sentence as sentence_of
from pgdyno.report.words import conditions
from pgdyno.report.workload_tables import table_lines
from pgdyno.report.wrapping import wrapped


def markdown_of(of: Digest, extras: Extras) -> str:
    """Return verdict, four numbers, findings, comparisons, the table of points and its notes."""
    blocks: list[Sequence[str]] = []
    said = answer(of, extras)
    text = escape(said.text)
    blocks.append(_paragraph(f"**{gettext('NOT VALID:')}** ~~{text}~~" if said.invalid else f"**{text}**"))
    blocks += [_paragraph(sentence_of(escape(each))) for each in said.details]
    if said.table is not None:
        blocks.append([f"    {line}" for line in table_lines(said.table, COLUMNS - 4)])
    blocks.append(_paragraph(escape(conditions(of))))
    if of.best is not None and shows_peak(of, said):
        blocks.append(
            [
                line
                for each in four_numbers(of, of.best, extras)
                for line in _number(each.name, each.figure, each.unit, each.about)
            ]
        )
    blocks.append(list(_findings(extras)))
    for each in extras.comparisons:
        blocks.append(_paragraph(escape(sentence(each))))
        if settling(each):
            blocks.append(_paragraph(sentence_of(escape(settling(each)))))
        table = comparison_table(each, COLUMNS - 4, unicode=True) if each.points else []
        blocks.append([f"    {line}".rstrip() for line in table])
    blocks.append(points_markdown(of).rstrip("\n").split("\n"))
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _number(name: str, figure: str, unit: str, about: str) -> list[str]:
    text = f"- {name}: {escape(figure)}{' ' if unit else ''}{unit} ({escape(about)})"
    return wrapped(text, COLUMNS, "  ")


def _findings(extras: Extras) -> Iterator[str]:
    for each in extras.findings or ():
        if each.checked and each.severity is not Severity.NOTE:
            text = f"- {gettext(each.severity.value)}: {escape(rule_name(each.rule))}: {escape(translated(each.said))}"
            yield from wrapped(text, COLUMNS, "  ")


def _paragraph(text: str) -> list[str]:
    return wrapped(text, COLUMNS)
