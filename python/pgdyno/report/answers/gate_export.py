"""Gates for programs and for comments on a change: JSON, JUnit and Markdown."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pgdyno.analyse.gate import Gate, GatePoint, GateVerdict
from pgdyno.messages import Message
from pgdyno.report.answers.comparison import (
    comparison_sentence,
    confounder_topics,
    control_line,
    low_to_high,
    new_run_words,
    percent,
    stopping_line,
)
from pgdyno.report.answers.comparison_export import comparison_json, point_json
from pgdyno.report.answers.noise import gate_noise
from pgdyno.report.answers.promises import Judgement, Verdict, promise_line, promises_json
from pgdyno.report.report_content import Digest
from pgdyno.report.terminal.forest_plot import EDGE, ZERO, Forest
from pgdyno.report.terminal.text_drawing import printable

PICTURE = 48
"""Columns of the picture of intervals in Markdown."""


@dataclass(frozen=True, slots=True)
class Required:
    """The promises that a candidate must keep."""

    of: Digest
    judged: Sequence[Judgement] = ()

    def lines(self, *verdicts: Verdict) -> list[str]:
        return [printable(promise_line(each, self.of)) for each in self.judged if each.verdict in verdicts]


def gate_verdict(of: Gate, required: Required | None = None) -> GateVerdict:
    """Return the verdict of the gate with its promises."""
    kept = {each.verdict for each in required.judged} if required is not None else set()
    if of.verdict in (GateVerdict.UNDECIDABLE, GateVerdict.REGRESSION):
        return of.verdict
    if Verdict.BROKEN in kept:
        return GateVerdict.PROMISE_BROKEN
    return GateVerdict.INCONCLUSIVE if Verdict.UNKNOWN in kept else of.verdict


def gate_lines(of: Gate, required: Required | None = None) -> list[str]:
    """Return every point and promise in a sentence: first what the gate cannot tell."""
    unclear = [] if required is None else required.lines(Verdict.UNKNOWN)
    told = [] if required is None else required.lines(Verdict.BROKEN) + required.lines(Verdict.HELD)
    points = [(point.verdict, f"{point.verdict.value}: {gate_words(of, point)}") for point in of.points]
    open_points = [text for verdict, text in points if verdict is GateVerdict.INCONCLUSIVE]
    regressions = [text for verdict, text in points if verdict is GateVerdict.REGRESSION]
    rest = [text for verdict, text in points if verdict is GateVerdict.OK]
    return [*_control_lines(of), *open_points, *unclear, *regressions, *told, *rest]


def _control_lines(of: Gate) -> list[str]:
    """Return that the baseline differs from itself, and what to do; nothing for one that does not, or once measured."""
    unequal = of.comparison.unequal_control
    if unequal is None:
        return []
    again = "More pairs would not help: even with 1,000, the trials vary too much to show two equal arms as equal"
    if of.control_pairs is not None:
        again = (
            f"If that was chance, a new run of about {of.control_pairs:,} pairs would show it with a chance of 80 %; "
            "if it comes again, find what changes from one trial to the next: the reset, caches, another load"
        )
    return [control_line(of.comparison, unequal), again]


def gate_json(of: Gate, required: Required | None = None) -> dict[str, Any]:
    """Return a gate: its comparison, with a verdict for every point and promise."""
    points = [
        {
            **point_json(point.compared),
            "gate": point.verdict.value,
            "new_run_pairs": point.new_run_pairs,
            "new_run_instances": point.new_run_instances,
        }
        for point in of.points
    ]
    return {
        **comparison_json(of.comparison),
        "gate": gate_verdict(of, required).value,
        "max_regression": of.limit,
        "control_pairs": of.control_pairs,
        "promises": [] if required is None else promises_json(required.judged),
        "power_at_twice": of.power,
        "points": points,
    }


def gate_junit(of: Gate, notes: Sequence[Message] = (), required: Required | None = None) -> str:
    """Return JUnit XML: a test case per point and promise; a regression and a broken promise are failures, what is
    inconclusive is an error. `notes` are those of the runs.
    """
    # imported here: only gates write XML
    from xml.etree import ElementTree

    promised = () if required is None else required.judged
    suite = ElementTree.Element(
        "testsuite",
        name=f"pgdyno gate {printable(of.comparison.base)} {printable(of.comparison.other)}",
        tests=str(len(of.points) + len(promised)),
        failures=str(
            sum(point.verdict is GateVerdict.REGRESSION for point in of.points)
            + sum(each.verdict is Verdict.BROKEN for each in promised)
        ),
        errors=str(
            sum(point.verdict is GateVerdict.INCONCLUSIVE for point in of.points)
            + sum(each.verdict is Verdict.UNKNOWN for each in promised)
        ),
    )
    stopped = stopping_line(of.comparison)
    said = [
        *_control_lines(of),
        *gate_noise(of.comparison),
        power_line(of),
        *([] if stopped is None else [stopped]),
        *(f"confounder: {each.message}" for each in of.comparison.confounders),
        *_caveats(of, notes),
    ]
    if of.comparison.confounders:
        properties = ElementTree.SubElement(suite, "properties")
        for each in of.comparison.confounders:
            ElementTree.SubElement(properties, "property", name="confounder", value=printable(str(each.message)))
    for point in of.points:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            classname=f"pgdyno.{of.comparison.metric.value}",
            name=printable(str(point.compared.label)),
        )
        if point.verdict is not GateVerdict.OK:
            tag = "failure" if point.verdict is GateVerdict.REGRESSION else "error"
            ElementTree.SubElement(
                case, tag, type=point.verdict.value, message=gate_words(of, point) + _confounder_words(of)
            )
    for promise in promised:
        case = ElementTree.SubElement(suite, "testcase", classname="pgdyno.promise", name=promise.promise.text)
        if promise.verdict is not Verdict.HELD and required is not None:
            tag = "failure" if promise.verdict is Verdict.BROKEN else "error"
            message = printable(promise_line(promise, required.of))
            ElementTree.SubElement(case, tag, type=promise.verdict.value, message=message)
    if said:
        ElementTree.SubElement(suite, "system-out").text = "\n".join(map(printable, said))
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def gate_markdown(of: Gate, notes: Sequence[Message] = (), required: Required | None = None) -> str:
    """Return a heading with the verdict, what the gate cannot tell, a picture, a table, and the `notes` of the runs, as
    for a comment.
    """
    lines = [f"### pgdyno gate: {_escape(gate_verdict_words(of, required))}", ""]
    for line in _control_lines(of):
        lines += [f"{_escape(line)}.", ""]
    unclear = [gate_words(of, point) for point in of.points if point.verdict is GateVerdict.INCONCLUSIVE]
    unclear += [] if required is None else required.lines(Verdict.UNKNOWN)
    if unclear:
        lines += ["Cannot tell:", *_list_items(unclear), ""]
    lines += [f"{_escape(comparison_sentence(of.comparison))}.", "", *_picture(of), ""]
    lines += [f"Allowed regression: {percent(of.limit, plus=False)} of {of.comparison.metric.words}.", ""]
    for line in (*gate_noise(of.comparison), power_line(of)):
        lines += [f"{_escape(line)}.", ""]
    lines += ["| point | change | interval | pairs | gate |", "|---|--:|--:|--:|---|"]
    for point in of.points:
        interval = "–" if point.compared.interval is None else low_to_high(point.compared.interval)  # noqa: RUF001
        change = percent(point.compared.change) if math.isfinite(point.compared.change) else "–"  # noqa: RUF001
        cells = [_escape(str(point.compared.label)), change, interval, str(point.compared.pairs)]
        lines.append(f"| {' | '.join([*cells, point.verdict.value])} |")
    told = [] if required is None else required.lines(Verdict.BROKEN) + required.lines(Verdict.HELD)
    confounders = [f"confounder: {each.message}" for each in of.comparison.confounders]
    return "\n".join([*lines, *_list_items(told), *_list_items(confounders), *_list_items(_caveats(of, notes))]) + "\n"


def _picture(of: Gate) -> list[str]:
    """Return the intervals of the points and of the control as a block of text, which comments, mails and terminals
    show alike.
    """
    control = () if of.comparison.control is None else of.comparison.control.points
    rows = [(str(point.compared.label), point.compared.interval) for point in of.points]
    rows += [(f"{point.label}: control", point.interval) for point in control]
    rows = [(printable(label).replace("`", "'"), interval) for label, interval in rows if interval is not None]
    forest = Forest.for_intervals([interval for _, interval in rows if interval is not None], math.log1p(of.limit))
    width = max((len(label) for label, _ in rows), default=0)
    drawn = [f"{label:{width}}  {forest.line(interval, PICTURE)}".rstrip() for label, interval in rows]
    side = "left" if of.comparison.metric.sign > 0 else "right"
    legend = (
        f"{ZERO} no difference, {EDGE} ±{percent(of.limit, plus=False)}, {of.comparison.other} is worse to the {side}"
    )
    return ["```text", *drawn, printable(legend).replace("`", "'"), "```"] if rows else []


def power_line(of: Gate) -> str:
    """Return how likely these pairs show a loss that matters."""
    chance = f"{100 * of.power:.0f} %"
    return f"Power: a regression of {percent(2 * of.limit, plus=False)} would have been found with a chance of {chance}"


def _caveats(of: Gate, notes: Sequence[Message]) -> list[str]:
    # both runs may have the same note
    return list(dict.fromkeys(map(str, (*of.comparison.warnings, *notes))))


def gate_verdict_words(of: Gate, required: Required | None = None) -> str:
    """Return the verdict with its confounders: `ok, confounded by processor and fsync`."""
    return gate_verdict(of, required).value + _confounder_words(of).replace("; ", ", ", 1)


def _confounder_words(of: Gate) -> str:
    return f"; confounded by {confounder_topics(of.comparison)}" if of.comparison.confounders else ""


def gate_words(of: Gate, point: GatePoint) -> str:
    """Describe one point of a gate in a sentence."""
    interval = point.compared.interval
    if point.compared.reason is not None:
        return f"{printable(str(point.compared.label))}: no verdict: {printable(str(point.compared.reason))}"
    seen = f"{printable(str(point.compared.label))}: {percent(point.compared.change)} of {of.comparison.metric.words}"
    if interval is not None:
        seen += f" ({100 * interval.level:.3g} % interval {low_to_high(interval)})"
    allowed = f"allowed regression: {percent(of.limit, plus=False)}"
    if point.reason is not None:
        return f"{seen}, {allowed}; {printable(str(point.reason))}"
    if point.verdict is GateVerdict.INCONCLUSIVE:
        needed = new_run_words(
            point.compared, point.new_run_pairs, point.new_run_instances, paired=of.comparison.paired
        )
        # a comparison without a limit says another number for the same figures
        return f"{seen}, {allowed}; against this limit, {needed}"
    return f"{seen}, {allowed}"


def _list_items(texts: Sequence[str]) -> list[str]:
    return ["", *(f"- {_escape(text)}" for text in texts)] if texts else []


def _escape(text: str) -> str:
    return printable(text).replace("|", "\\|")
