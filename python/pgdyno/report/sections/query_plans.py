"""Statements whose query plans differ between arms: a table, and both plans on request."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.report import numbers
from pgdyno.report.report_content import PlanChange, PlanOfArm
from pgdyno.report.report_tables import Table
from pgdyno.report.sections.section import Block, FoldedText
from pgdyno.report.translation import gettext, gettext_each

MOST_CHANGES = 20
_TEXT = 160
"""Displayed characters of a statement."""


def plan_tables(changes: Sequence[PlanChange]) -> list[Table]:
    """Return a row per statement and pair of arms; no table without changes."""
    rows = tuple(
        (
            _shortened(each.name),
            each.base.name,
            each.other.name,
            str(each.clients),
            _ms(each.base),
            _ms(each.other),
            _change(each),
        )
        for each in changes[:MOST_CHANGES]
    )
    caption = gettext(
        "Statements whose query plan (EXPLAIN before the trials) differs between two arms: {count}. Times are means of "
        "the statement as its clients saw them",
        count=len(changes),
    )
    headings = gettext_each("statement", "baseline", "compared", "clients", "baseline, ms", "compared, ms", "change, %")
    return [Table(caption, headings, rows, 3)] if rows else []


def plan_blocks(changes: Sequence[PlanChange]) -> list[Block]:
    blocks: list[Block] = [*plan_tables(changes)]
    for each in changes[:MOST_CHANGES]:
        title = gettext("Query plans of {statement}", statement=_shortened(each.name))
        parts = [f"{arm.name}:\n{arm.plan}" for arm in (each.base, each.other)]
        blocks.append(FoldedText(title, "\n\n".join([each.text, *parts])))
    return blocks


def _shortened(text: str) -> str:
    return " ".join(text.split())[:_TEXT]


def _ms(arm: PlanOfArm) -> str:
    return numbers.NOTHING if arm.mean_ms is None else numbers.rounded(arm.mean_ms)


def _change(change: PlanChange) -> str:
    base, other = change.base.mean_ms, change.other.mean_ms
    return numbers.NOTHING if not base or other is None else f"{100 * (other / base - 1):+.1f}"
