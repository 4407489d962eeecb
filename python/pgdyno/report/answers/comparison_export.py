"""Comparisons, noise floors and gates for programs (JSON, JUnit), and gates for comments on a change (Markdown)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pgdyno.analyse.comparison import Comparison, Gate, GatePoint, GateVerdict, PointComparison
from pgdyno.analyse.intervals import Interval
from pgdyno.analyse.noise_floor import FloorRefusal, NoiseFloor
from pgdyno.analyse.noise_grade import grade_against_none
from pgdyno.messages import message_json
from pgdyno.report.answers.comparison import (
    comparison_sentence,
    confounding,
    low_to_high,
    new_run_words,
    percent,
    stopping_line,
)
from pgdyno.report.answers.noise import noise_line
from pgdyno.report.terminal.text_drawing import printable


def comparison_json(of: Comparison) -> dict[str, Any]:
    """Return one comparison; differences are relative (0.01 is 1 %), figures transactions per second or nanoseconds."""
    return {
        "base": of.base,
        "other": of.other,
        "metric": of.metric.value,
        "paired": of.paired,
        "delta": of.delta,
        "overall": None if of.overall is None else point_json(of.overall),
        "points": [point_json(point) for point in of.points],
        "stopping": None if of.stopping is None else of.stopping.model_dump(mode="json"),
        "unmatched": [str(label) for label in of.unmatched],
        "confounders": [
            {"topic": each.topic, "field": each.field, **message_json(each.message)} for each in of.confounders
        ],
        "warnings": [str(each) for each in of.warnings],
        "warning_details": [message_json(each) for each in of.warnings],
    }


def point_json(point: PointComparison) -> dict[str, Any]:
    return {
        "label": str(point.label),
        "verdict": point.verdict.value,
        "pairs": point.pairs,
        "base": _number(point.base),
        "other": _number(point.other),
        "change": _number(point.change),
        "interval": None if point.interval is None else interval_json(point.interval),
        "detectable": point.detectable,
        "new_run_pairs": point.new_run_pairs,
        "instances": point.instances,
        "new_run_instances": point.new_run_instances,
        "duet": point.duet,
        "removed": point.removed,
        "fewest": point.fewest,
        "reason": None if point.reason is None else str(point.reason),
        "reason_details": None if point.reason is None else message_json(point.reason),
    }


def interval_json(interval: Interval) -> dict[str, Any]:
    """Return the ends as relative differences."""
    return {
        "low": math.expm1(interval.low),
        "high": math.expm1(interval.high),
        "level": interval.level,
        "look_level": interval.look_level,
        "method": interval.method.value,
    }


def noise_json(of: NoiseFloor) -> dict[str, Any]:
    points = [
        {
            "label": str(point.label),
            "pairs": point.pairs,
            "floor": point.floor,
            "interval": interval_json(point.interval),
            "spread": point.spread,
            "spread_interval": [point.spread_low, point.spread_high],
        }
        for point in of.points
    ]
    return {
        "base": of.base,
        "other": of.other,
        "floor": of.floor,
        "delta": of.delta,
        "refused": None if (refused := of.refusal) is None else _refused_json(refused),
        "points": points,
        "warnings": [str(each) for each in of.warnings],
        "warning_details": [message_json(each) for each in of.warnings],
    }


def _refused_json(of: FloorRefusal) -> dict[str, Any]:
    return {"why": str(of.why), "remedy": str(of.remedy), "id": of.why.id, "parameters": of.why.parameters}


def _number(figure: float) -> float | None:
    return figure if math.isfinite(figure) else None


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
        "points": points,
    }


def gate_junit(of: Gate) -> str:
    """Return JUnit XML: a test case per point; a regression is a failure, an inconclusive point an error."""
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
        noise_line(grade_against_none(of.comparison)),
        *([] if stopped is None else [stopped]),
        *(f"confounder: {each.message}" for each in of.comparison.confounders),
        *map(str, of.comparison.warnings),
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
            ElementTree.SubElement(case, tag, type=point.verdict.value, message=gate_words(of, point) + _confounded(of))
    if said:
        ElementTree.SubElement(suite, "system-out").text = "\n".join(map(printable, said))
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def gate_markdown(of: Gate) -> str:
    """Return a heading with the verdict, a sentence and a table, as for a comment on a change."""
    lines = [
        f"### pgdyno gate: {_escaped(gate_verdict_words(of))}",
        "",
        f"{_escaped(comparison_sentence(of.comparison))}.",
        "",
    ]
    lines += [f"Allowed regression: {percent(of.limit, plus=False)} of {of.comparison.metric.words}.", ""]
    lines += [f"{_escaped(noise_line(grade_against_none(of.comparison)))}.", ""]
    lines += ["| point | change | interval | pairs | gate |", "|---|--:|--:|--:|---|"]
    for point in of.points:
        interval = "–" if point.compared.interval is None else low_to_high(point.compared.interval)  # noqa: RUF001
        change = percent(point.compared.change) if math.isfinite(point.compared.change) else "–"  # noqa: RUF001
        cells = [_escaped(str(point.compared.label)), change, interval, str(point.compared.pairs)]
        lines.append(f"| {' | '.join([*cells, point.verdict.value])} |")
    notes = [gate_words(of, point) for point in of.points if point.verdict is GateVerdict.INCONCLUSIVE]
    confounders = [f"confounder: {each.message}" for each in of.comparison.confounders]
    warnings = [str(each) for each in of.comparison.warnings]
    return "\n".join([*lines, *_listed(confounders), *_listed(notes), *_listed(warnings)]) + "\n"


def gate_verdict_words(of: Gate) -> str:
    """Return the verdict with its confounders: `ok, confounded by processor and fsync`."""
    return of.verdict.value + _confounded(of).replace("; ", ", ", 1)


def _confounded(of: Gate) -> str:
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
    if point.verdict is GateVerdict.INCONCLUSIVE:
        needed = new_run_words(
            point.compared, point.new_run_pairs, point.new_run_instances, paired=of.comparison.paired
        )
        return f"{seen}, {allowed}; {needed}"
    return f"{seen}, {allowed}"


def _listed(texts: Sequence[str]) -> list[str]:
    return ["", *(f"- {_escaped(text)}" for text in texts)] if texts else []


def _escaped(text: str) -> str:
    return printable(text).replace("|", "\\|")
