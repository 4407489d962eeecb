"""The content of the page of two compared runs."""

from collections.abc import Iterator

from pgdyno.analyse.comparison import compare
from pgdyno.analyse.pairs import Metric
from pgdyno.fingerprint import Difference, Weight, comparable
from pgdyno.report.answers.comparison import comparison_sentence, confounded_line
from pgdyno.report.numbers import NOTHING
from pgdyno.report.sections.figures.comparison import compared_table, drawn_comparison
from pgdyno.report.sections.section_blocks import Block, Paragraph
from pgdyno.report.several_runs import arms_between
from pgdyno.report.table import Cell, Table
from pgdyno.report.translation import sentence
from pgdyno.store import RunData

_LOOKS = {Weight.REFUSED: "words bad", Weight.CONFOUNDER: "words bad", Weight.CAUTION: "words amber"}


def compare_runs(base: RunData, other: RunData, metric: Metric) -> tuple[str, list[Block]]:
    """Compare `other` with `base`: the result in a sentence, and the rest. Raises UsageError without a common point."""
    (found,) = compare([arms_between(base, other, metric)])
    before, after = base.manifest.fingerprint, other.manifest.fingerprint
    confounded = confounded_line(found)
    said = [*([] if confounded is None else [confounded]), *map(str, found.warnings)]
    if before is None or after is None:
        said.append("the fingerprint of the runs is not recorded: they may have run on different machines")
    if found.unmatched:
        said.append(f"only in one of the runs: {', '.join(map(str, found.unmatched))}")
    blocks: list[Block] = [Paragraph(sentence(each)) for each in said]
    figure = drawn_comparison(found, 1, 0).figure
    blocks += [*([] if figure is None else [figure]), *([compared_table(found)] if found.points else [])]
    differences = comparable(before, after) if before is not None and after is not None else []
    rows = tuple(_rows(each for each in differences if each.severity is not Weight.HARMLESS))
    headings = ("what", "before", "after", "what that means")
    return comparison_sentence(found), [*blocks, *([Table("Other differences", headings, rows, 4)] if rows else [])]


def _rows(differences: Iterator[Difference]) -> Iterator[tuple[str, ...]]:
    for each in differences:
        values = (value if value is not None else NOTHING for value in (each.a, each.b))
        yield each.field, *values, Cell(str(each.why), _LOOKS.get(each.severity, "words"))
