"""A refused comparison: the reasons, for people and programs."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from xml.etree import ElementTree

from pgdyno.audit import Finding
from pgdyno.messages import Message
from pgdyno.report.terminal.text_drawing import printable

FORCE = "--force"


class Grounds(StrEnum):
    AUDIT = "audit"
    """The audit has an invalid finding."""
    PAIR = "pair"
    """The two runs measured different things."""
    FLOOR = "floor"
    """The A/A run is not usable as a noise floor."""

    @property
    def headline(self) -> str:
        """Return the text in place of the comparison."""
        return {
            Grounds.AUDIT: "the audit found figures invalid",
            Grounds.PAIR: "the two runs measured different things",
            Grounds.FLOOR: "the noise floor cannot be used",
        }[self]


@dataclass(frozen=True, slots=True)
class Reason:
    """An invalid finding, and the run that it concerns."""

    run: str
    finding: Finding
    grounds: Grounds = Grounds.AUDIT


def reason_notes(reasons: Sequence[Reason]) -> list[Message]:
    """Return each reason as a note of a comparison that was forced."""
    return [
        Message(
            "forced",
            "invalid: {run}: {rule}: {finding}",
            run=printable(each.run),
            rule=each.finding.rule,
            finding=printable(each.finding.message),
            finding_id=each.finding.id,
        )
        for each in reasons
    ]


def reason_lines(reasons: Sequence[Reason]) -> list[str]:
    return [str(note) for note in reason_notes(reasons)]


def refusal_lines(reasons: Sequence[Reason]) -> list[str]:
    """Return the text in place of a comparison, with the remedy."""
    audited = " ".join(dict.fromkeys(each.run for each in reasons if each.grounds is Grounds.AUDIT))
    look = [f"pgdyno audit {printable(audited)} shows the evidence"] if audited else []
    others = [each.finding.advice for each in reasons if each.grounds is not Grounds.AUDIT and each.finding.advice]
    return [
        f"No comparison: {refusal_headline(reasons)}",
        *reason_lines(reasons),
        *(f"remedy: {printable(each)}" for each in dict.fromkeys(others)),
        "; ".join([*look, f"{FORCE} compares anyway"]),
    ]


def reasons_json(reasons: Sequence[Reason]) -> list[dict[str, object]]:
    """Return the findings, each with its run, and the reason for the refusal."""
    return [
        {"run": each.run, "grounds": each.grounds.value, **each.finding.model_dump(mode="json")} for each in reasons
    ]


def refused_junit(reasons: Sequence[Reason]) -> str:
    """Return JUnit XML: an error for each reason, so that no build passes by a gate that did not judge."""
    suite = ElementTree.Element(
        "testsuite", name="pgdyno gate", tests=str(len(reasons)), failures="0", errors=str(len(reasons))
    )
    for each in reasons:
        case = ElementTree.SubElement(
            suite, "testcase", classname=f"pgdyno.{each.grounds.value}", name=each.finding.rule
        )
        message = f"{printable(each.run)}: {printable(each.finding.message)}"
        ElementTree.SubElement(case, "error", type="invalid", message=message)
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def refused_markdown(reasons: Sequence[Reason]) -> str:
    lines = [line.replace("|", "\\|") for line in reason_lines(reasons)]
    heading = f"### pgdyno gate: not judged, {refusal_headline(reasons)}"
    return "\n".join([heading, "", *(f"- {line}" for line in lines)]) + "\n"


def refusal_headline(reasons: Sequence[Reason]) -> str:
    """Return the reason as a phrase after a colon or a comma."""
    return ", and ".join(dict.fromkeys(each.grounds.headline for each in reasons))
