"""A comparison that must not stand: why, for people and programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from xml.etree import ElementTree

from pgdyno.audit import Finding
from pgdyno.report.blocks import printable

FORCE = "--force"


class Grounds(StrEnum):
    """What a comparison is refused for."""

    AUDIT = "audit"
    """A finding of the audit says invalid."""
    PAIR = "pair"
    """The two runs did not measure the same."""
    FLOOR = "floor"
    """The A/A run is no noise floor to compare by."""

    @property
    def headline(self) -> str:
        """What stands in place of the comparison."""
        return {
            Grounds.AUDIT: "the audit says that figures are invalid",
            Grounds.PAIR: "the two runs did not measure the same",
            Grounds.FLOOR: "the noise floor cannot be used",
        }[self]


@dataclass(frozen=True, slots=True)
class Reason:
    """A finding that says invalid, and the run that it is about."""

    run: str
    finding: Finding
    grounds: Grounds = Grounds.AUDIT


def reason_lines(reasons: Sequence[Reason]) -> list[str]:
    """A line each."""
    return [
        f"invalid: {printable(each.run)}: {each.finding.rule}: {printable(each.finding.message)}" for each in reasons
    ]


def refusal_lines(reasons: Sequence[Reason]) -> list[str]:
    """What is said in place of a comparison, with what to do about it."""
    audited = " ".join(dict.fromkeys(each.run for each in reasons if each.grounds is Grounds.AUDIT))
    look = [f"pgdyno audit {printable(audited)} shows the evidence"] if audited else []
    others = [each.finding.advice for each in reasons if each.grounds is not Grounds.AUDIT and each.finding.advice]
    return [
        f"No comparison: {refusal_headline(reasons)}",
        *reason_lines(reasons),
        *(f"remedy: {printable(each)}" for each in dict.fromkeys(others)),
        "; ".join([*look, f"{FORCE} compares nevertheless"]),
    ]


def reasons_json(reasons: Sequence[Reason]) -> list[dict[str, object]]:
    """The findings, each with its run, and what it is found by."""
    return [
        {"run": each.run, "grounds": each.grounds.value, **each.finding.model_dump(mode="json")} for each in reasons
    ]


def refused_junit(reasons: Sequence[Reason]) -> str:
    """JUnit's XML: an error for each reason, so that no build is green by a gate that did not judge."""
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
    """A heading, and why."""
    lines = [line.replace("|", "\\|") for line in reason_lines(reasons)]
    heading = f"### pgdyno gate: not judged, {refusal_headline(reasons)}"
    return "\n".join([heading, "", *(f"- {line}" for line in lines)]) + "\n"


def refusal_headline(reasons: Sequence[Reason]) -> str:
    """What is wrong, in words that go on from a colon or a comma."""
    return ", and ".join(dict.fromkeys(each.grounds.headline for each in reasons))
