"""Reports prices that rest on a throughput that another rule rejects."""

import re
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping

from pgdyno.audit.finding import Evidence, MissingError, Rule, RuleFinding, Severity
from pgdyno.audit.rules import identical_rows, littles_law
from pgdyno.audit.subject import Sample, Subject
from pgdyno.messages import Message

INPUTS = (littles_law.RULE, identical_rows.RULE)
"""Rules that reject a throughput."""
ADVICE = "leave the price out, or compute it again from a valid throughput"
_NUMBER = re.compile(r"\d[\d,]{2,15}(?:\.\d{1,10})?")


def _check(subject: Subject) -> Iterator[RuleFinding]:
    claims = subject.manifest.imported.claims if subject.manifest.imported is not None else []
    prices = subject.prices
    if not claims and prices is None:
        if subject.imported:
            raise MissingError(Message("no-price", "the source gives no price"))
        return
    rejected = _rejected_reasons(subject)
    claimed: dict[Sample, list[Evidence]] = defaultdict(list)
    for claim in claims:
        used = {float(match[0].replace(",", "")) for match in _NUMBER.finditer(claim.text)}
        evidence = Evidence(at=f"{claim.file}:{claim.line}", figures={"text": claim.text})
        for sample in rejected:
            if sample.summary.tps in used:
                claimed[sample].append(evidence)
    if claimed:
        yield _finding(rejected, list(claimed), [each for of in claimed.values() for each in of])
    for target in prices.target if prices is not None else ():
        for peak in _peaks(subject.by_target.get(target, [])):
            samples = [sample for sample in peak if sample in rejected]
            if samples:
                figures: dict[str, float | str] = {"target": target, "clients": peak[0].clients}
                at = "--price" if subject.given_prices is not None else "manifest, plan"
                yield _finding(rejected, samples, [Evidence(at=at, figures=figures)])


_Why = tuple[str, Severity]
"""Id of a rule, and its severity for the figure."""


def _rejected_reasons(subject: Subject) -> Mapping[Sample, list[_Why]]:
    by_number = {sample.number: sample for sample in subject.samples}
    found: dict[Sample, list[_Why]] = defaultdict(list)
    for rule in INPUTS:
        for finding in rule.findings(subject):
            for number in finding.trials if finding.severity is not Severity.NOTE else ():
                found[by_number[number]].append((rule.id, finding.severity))
    return found


def _peaks(samples: list[Sample]) -> Iterator[list[Sample]]:
    curves: dict[str, dict[int, list[Sample]]] = defaultdict(lambda: defaultdict(list))
    for sample in samples:
        curve = sample.trial.point.model_copy(update={"clients": 0}).model_dump_json()
        curves[curve][sample.clients].append(sample)
    for points in curves.values():
        yield max(points.values(), key=lambda point: statistics.fmean(each.summary.tps for each in point))


def _finding(rejected: Mapping[Sample, list[_Why]], samples: list[Sample], priced: list[Evidence]) -> RuleFinding:
    why = [each for sample in samples for each in rejected[sample]]
    rates = dict.fromkeys(f"{sample.summary.tps:,.10g}" for sample in samples)
    return RuleFinding(
        max((severity for _, severity in why), key=list(Severity).index),
        Message(
            "price-unsound",
            "prices are computed from {rates} transactions a second, which {rules} rejects",
            rates=", ".join(rates),
            rules=" and ".join(dict.fromkeys(rule for rule, _ in why)),
        ),
        [sample.number for sample in samples],
        [
            *priced,
            *(
                Evidence(at=sample.figure_location("tps"), figures=sample.some("tps", "latency_mean_ms"))
                for sample in samples
            ),
        ],
        ADVICE,
    )


RULE = Rule(
    "price-unsound",
    "prices that a document prints, and prices at the peaks of a run with a price list (the plan's, or that of "
    "`--price`), whose throughput `littles-law` or `identical-rows` rejects: as severe as that finding",
    Severity.INVALID,
    "docs/design/method.md, Price; Gates",
    _check,
    place=40,
)
