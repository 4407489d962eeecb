"""Reports queries that return other rows in one arm than in another, or than they must."""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence

from pgdyno.audit.finding import Evidence, MissingError, Rule, RuleFinding, Severity
from pgdyno.audit.subject import Subject
from pgdyno.messages import Message
from pgdyno.records import QueryResult

TOLERANCE = 1e-6
"""Relative, of sums of floats: their last digits depend on the order of additions."""
KNOWN_TOLERANCE = 1e-10
"""Of sums of known results: less than the 100 dollars that TPC-H's specification allows (clause 2.1.3.5)."""

_ADVICE = (
    "give the arms the same data, and write queries whose result does not depend on chance: LIMIT with a complete "
    "ORDER BY, no random() or now()"
)
_ADVICE_KNOWN = (
    "load the data again; if the rows are still wrong, the server computes or stores wrong values: compare versions"
)


def _check(subject: Subject) -> Iterator[RuleFinding]:
    found: dict[str, list[tuple[int, QueryResult]]] = defaultdict(list)
    for sample in subject.samples:
        for result in sample.trial.query_results:
            if result.digest is not None:
                found[result.query].append((sample.number, result))
    if not found:
        raise MissingError(Message("no-query-results", "no result of a query was kept"))
    samples = {sample.number: sample for sample in subject.samples}
    for number, result in (each for results in found.values() for each in results):
        differs = _difference(result.known, result, KNOWN_TOLERANCE) if result.known is not None else None
        if differs is not None:
            said = Message(
                "results-differ-from-known",
                "{query} returned wrong rows in trial {trial}: {differs}",
                query=result.query,
                trial=number,
                differs=differs,
            )
            evidence = [Evidence(at=samples[number].figure_location(), figures={"rows": result.rows or 0})]
            yield RuleFinding(_severity(differs), said, [number], evidence, _ADVICE_KNOWN)
    for query, results in found.items():
        (first, base), *others = results
        for number, other in others:
            differs = _difference(base, other)
            if differs is None:
                continue
            said = Message(
                "results-differ",
                "{query} returned other rows in trial {other} than in trial {base}: {differs}",
                query=query,
                base=first,
                other=number,
                differs=differs,
            )
            evidence = [
                Evidence(at=samples[at].figure_location(), figures={"rows": each.rows or 0})
                for at, each in ((first, base), (number, other))
            ]
            yield RuleFinding(_severity(differs), said, evidence=evidence, advice=_ADVICE)


def _severity(differs: Message) -> Severity:
    return Severity.CAUTION if differs.id == "order" else Severity.INVALID


def _difference(base: QueryResult, other: QueryResult, tolerance: float = TOLERANCE) -> Message | None:
    if base.rows != other.rows:
        return Message("rows", "{base:,} and {other:,} rows", base=base.rows or 0, other=other.rows or 0)
    if base.digest != other.digest:
        return Message("values", "values differ")
    if not _are_close(base.float_sums, other.float_sums, tolerance):
        return Message("sums", "sums of floats differ")
    return Message("order", "their order differs") if base.in_order != other.in_order else None


def _are_close(base: Sequence[str], other: Sequence[str], tolerance: float) -> bool:
    pairs = zip(map(float, base), map(float, other), strict=True)
    return all(math.isclose(a, b, rel_tol=tolerance) or (math.isnan(a) and math.isnan(b)) for a, b in pairs)


RULE = Rule(
    "results-differ",
    "the rows that each query file returned once in each arm: invalid if their number or values differ (sums of floats "
    "by more than 1e-6) or are not those that are known of TPC-H at scale factor 1, caution if only the order differs "
    "of a query with ORDER BY",
    Severity.INVALID,
    "docs/guides/queries.md",
    _check,
    place=193,
)
