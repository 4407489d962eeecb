"""The two first pages: the claim and its validity; then scaling, latency, price."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from pgdyno.report.html import Content, joined, where
from pgdyno.report.pdf.page_blocks import Block, breakable, figure, heading, line, listed, section_blocks, table
from pgdyno.report.sections.validity import Validity
from pgdyno.report.translation import gettext, ngettext, sentence

MOST_REASONS = 5


def first_page(content: Content) -> list[Block]:
    return list(
        chain(
            _verdict(content),
            _proof(content),
            _numbers(content),
            _validity(content["validity"]),
            _notes(content),
            _others(content),
        )
    )


def second_page(content: Content) -> list[Block]:
    blocks = []
    rest = [each for each in (content["curves"], content["latency"]) if each and each not in content["proof"][:1]]
    if rest:
        blocks.append(heading(gettext("Scaling") if content["latency"] else gettext("Throughput")))
        blocks += [figure(each) for each in rest]
        bars = gettext("Bars at a point are its 95 % interval (Student's t over trials, n in its row).")
        blocks.append(line(bars, "quiet", keep=1))
    if content["spectrum"] and content["spectrum"] not in content["proof"][:1]:
        blocks.append(heading(gettext("Latency by percentile"), keep=2))
        blocks.append(figure(content["spectrum"], keep=2))
    for each in content["listed"]:
        if each.section.on_second_page:
            blocks += [heading(each.section.title()), *section_blocks(each)]
    return blocks


def _verdict(content: Content) -> Iterator[Block]:
    struck = content["struck"]
    yield {"kind": "verdict", "text": breakable(joined(content["headline"])), "struck": bool(struck), "keep": 0}
    if struck:
        more = f"; {gettext('and {count} more', count=len(struck) - 1)}" if len(struck) > 1 else ""
        yield line(gettext("{sentence}.", sentence=f"{gettext('Not valid:')} {struck[0]}{more}"), "bad")
    for each in content["details"]:
        yield line(sentence(each))
    yield line(content["conditions"], "quiet")
    if content["answered"] is not None:
        yield table(content["answered"])
    if content["unfinished"]:
        failed = ngettext(
            "{count:,} of {all} trials did not finish",
            "{count:,} of {all} trials did not finish",
            len(content["unfinished"]),
            all=len(content["trials"]),
        )
        yield line(gettext("{sentence}.", sentence=f"{gettext('Failed:')} {failed}"), "bad")


def _proof(content: Content) -> Iterator[Block]:
    """Return the picture that proves the answer."""
    for each in content["proof"][:1]:
        yield figure(each, keep=1)


def _numbers(content: Content) -> Iterator[Block]:
    if content["validity"] is not None:
        yield line(f"{gettext('Validity')}: {content['validity'].line}")
    if content["numbers"]:
        numbers = [
            {
                "name": each.name,
                "figure": each.figure,
                "unit": each.unit,
                "about": breakable(each.about),
                "look": each.verdict,
            }
            for each in content["numbers"]
        ]
        yield {"kind": "four", "numbers": numbers, "keep": 0}


def _validity(validity: Validity | None) -> Iterator[Block]:
    if validity is None:
        return
    yield heading(gettext("Validity"))
    yield line(gettext("{sentence}.", sentence=validity.summary), "quiet")
    shown = [{"rule": gate.name, "word": gate.word, "look": gate.verdict} for gate in validity.gates]
    yield {"kind": "strip", "gates": shown, "keep": 0}
    if validity.reasons:
        heaviest = validity.reasons[:MOST_REASONS]
        rows = [
            {"word": each.word, "look": each.verdict, "rule": each.name, **_short(each.message)} for each in heaviest
        ]
        yield {"kind": "reasons", "rows": rows, "keep": 1}
        more = len(validity.reasons) - len(heaviest)
        if more:
            yield line(gettext("{sentence}.", sentence=gettext("and {count} more", count=more)), "quiet", keep=1)


def _short(message: str) -> Block:
    return {"message": breakable(sentence(message)), "advice": "", "evidence": [], "source": ""}


def _notes(content: Content) -> Iterator[Block]:
    if content["notes"]:
        yield heading(gettext("Caveats"), keep=5)
        yield listed(told_notes(content), keep=5)


def told_notes(content: Content) -> Iterator[str]:
    """Return every warning with its points."""
    for note in content["notes"]:
        yield sentence(note.message + (f": {where(note.points)}" if note.points else ""))


def _others(content: Content) -> Iterator[Block]:
    """Return the comparisons in words, and the table of the first; without one, the peaks."""
    comparisons = content["comparisons"]
    if not comparisons:
        if content["peaks"]:
            yield heading(gettext("Peak and knee of each series"), keep=1)
            yield table(content["peaks"], keep=1)
        return
    others = [gettext("{sentence}.", sentence=each.sentence) for each in comparisons[1:]]
    yield heading(gettext("Comparison"), keep=3 if others else 4)
    if others:
        yield listed(others, keep=3)
    yield table(comparisons[0].table, keep=4)
