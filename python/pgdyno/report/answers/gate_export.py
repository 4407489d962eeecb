"""Gates for programs and for comments on a change: JSON, JUnit and Markdown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pgdyno.analyse.gate import Gate, GatePoint, GateVerdict
from pgdyno.messages import Message
from pgdyno.report.answers.comparison import (
    comparison_sentence,
    confounding,
    low_to_high,
    new_run_words,
    percent,
    stopping_line,
)
from pgdyno.report.answers.comparison_export import comparison_json, point_json
from pgdyno.report.answers.noise import gate_noise
from pgdyno.report.terminal.text_drawing import printable


def gate_json(of: Gate) -> dict[str, Any]:
    """Return a gate: its comparison, with a verdict for every point."""
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
        "gate": of.verdict.value,
        "max_regression": of.limit,
        "power_at_twice": of.power,
        "points": points,
    }


def gate_junit(of: Gate, notes: Sequence[Message] = ()) -> str:
    """Return JUnit XML: a test case per point; a regression is a failure, an inconclusive point an error. `notes` are
    those of the runs.
    """
    # imported here: only gates write XML
    from xml.etree import ElementTree

    suite = ElementTree.Element(
        "testsuite",
        name=f"pgdyno gate {printable(of.comparison.base)} {printable(of.comparison.other)}",
        tests=str(len(of.points)),
        failures=str(sum(point.verdict is GateVerdict.REGRESSION for point in of.points)),
        errors=str(sum(point.verdict is GateVerdict.INCONCLUSIVE for point in of.points)),
    )
    stopped = stopping_line(of.comparison)
    said = [
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
    if said:
        ElementTree.SubElement(suite, "system-out").text = "\n".join(map(printable, said))
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def gate_markdown(of: Gate, notes: Sequence[Message] = ()) -> str:
    """Return a heading with the verdict, a sentence, a table and the `notes` of the runs, as for a comment."""
    lines = [
        f"### pgdyno gate: {_escape(gate_verdict_words(of))}",
        "",
        f"{_escape(comparison_sentence(of.comparison))}.",
        "",
    ]
    lines += [f"Allowed regression: {percent(of.limit, plus=False)} of {of.comparison.metric.words}.", ""]
    for line in (*gate_noise(of.comparison), power_line(of)):
        lines += [f"{_escape(line)}.", ""]
    lines += ["| point | change | interval | pairs | gate |", "|---|--:|--:|--:|---|"]
    for point in of.points:
        interval = "–" if point.compared.interval is None else low_to_high(point.compared.interval)  # noqa: RUF001
        change = percent(point.compared.change) if math.isfinite(point.compared.change) else "–"  # noqa: RUF001
        cells = [_escape(str(point.compared.label)), change, interval, str(point.compared.pairs)]
        lines.append(f"| {' | '.join([*cells, point.verdict.value])} |")
    unclear = [gate_words(of, point) for point in of.points if point.verdict is GateVerdict.INCONCLUSIVE]
    confounders = [f"confounder: {each.message}" for each in of.comparison.confounders]
    return (
        "\n".join([*lines, *_list_items(confounders), *_list_items(unclear), *_list_items(_caveats(of, notes))]) + "\n"
    )


def power_line(of: Gate) -> str:
    """Return how likely these pairs show a loss that matters."""
    chance = f"{100 * of.power:.0f} %"
    return f"Power: a regression of {percent(2 * of.limit, plus=False)} would have been found with a chance of {chance}"


def _caveats(of: Gate, notes: Sequence[Message]) -> list[str]:
    # both runs may have the same note
    return list(dict.fromkeys(map(str, (*of.comparison.warnings, *notes))))


def gate_verdict_words(of: Gate) -> str:
    """Return the verdict with its confounders: `ok, confounded by processor and fsync`."""
    return of.verdict.value + _confounder_words(of).replace("; ", ", ", 1)


def _confounder_words(of: Gate) -> str:
    return f"; confounded by {confounding(of.comparison)}" if of.comparison.confounders else ""


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
