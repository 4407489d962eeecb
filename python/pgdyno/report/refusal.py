"""A comparison that the audit does not let stand: why, for people and programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from pgdyno.audit import Finding
from pgdyno.report.blocks import printable

FORCE = "--force"


@dataclass(frozen=True, slots=True)
class Reason:
    """A finding that says invalid, and the run that it is about."""

    run: str
    finding: Finding


def reason_lines(reasons: Sequence[Reason]) -> list[str]:
    """A line each."""
    return [
        f"invalid: {printable(each.run)}: {each.finding.rule}: {printable(each.finding.message)}" for each in reasons
    ]


def refusal_lines(reasons: Sequence[Reason]) -> list[str]:
    """What is said in place of a comparison."""
    runs = " ".join(dict.fromkeys(each.run for each in reasons))
    return [
        "No comparison: the audit says that figures are invalid",
        *reason_lines(reasons),
        f"pgdyno audit {printable(runs)} shows the evidence; {FORCE} compares nevertheless",
    ]


def reasons_json(reasons: Sequence[Reason]) -> list[dict[str, object]]:
    """The findings, each with its run."""
    return [{"run": each.run, **each.finding.model_dump(mode="json")} for each in reasons]


def refused_junit(reasons: Sequence[Reason]) -> str:
    """JUnit's XML: an error for each reason, so that no build is green by a gate that did not judge."""
    suite = ElementTree.Element(
        "testsuite", name="pgdyno gate", tests=str(len(reasons)), failures="0", errors=str(len(reasons))
    )
    for each in reasons:
        case = ElementTree.SubElement(suite, "testcase", classname="pgdyno.audit", name=each.finding.rule)
        message = f"{printable(each.run)}: {printable(each.finding.message)}"
        ElementTree.SubElement(case, "error", type="invalid", message=message)
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def refused_markdown(reasons: Sequence[Reason]) -> str:
    """A heading, and why."""
    lines = [line.replace("|", "\\|") for line in reason_lines(reasons)]
    return (
        "\n".join(["### pgdyno gate: not judged, for figures are invalid", "", *(f"- {line}" for line in lines)]) + "\n"
    )
