"""Reports tables that have other indexes at one compared target, however small these are."""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.audit.finding import Evidence, MissingError, Rule, RuleFinding, Severity
from pgdyno.audit.subject import Subject
from pgdyno.messages import Message
from pgdyno.units import first_names

MOST_NAMED = 5
"""The largest number of tables that a finding names."""


def _check(subject: Subject) -> Iterator[RuleFinding]:
    taken = subject.manifest.fingerprint
    servers = taken.servers if taken is not None else {}
    kept = {
        target: servers[target].indexes or {}
        for target in subject.by_target
        if target in servers and servers[target].indexes is not None
    }
    if len(kept) < len(subject.by_target) or not kept:
        raise MissingError(Message("no-indexes", "the indexes of a target are not recorded"))
    tables = sorted(set().union(*kept.values()))
    differing = [table for table in tables if len({indexes.get(table) for indexes in kept.values()}) > 1]
    if differing:
        yield RuleFinding(
            Severity.CAUTION,
            Message(
                "indexes-differ",
                "a table has different indexes: {tables}",
                "tables have different indexes: {tables}",
                count=len(differing),
                tables=first_names(differing, MOST_NAMED),
            ),
            (),
            [
                Evidence(
                    at="manifest",
                    figures={"table": table, **{target: has.get(table, "none") for target, has in kept.items()}},
                )
                for table in differing
            ],
            "create the same indexes at all targets, unless they are what is compared",
        )


RULE = Rule(
    "indexes-differ",
    "the indexes of each table at the first trial, by target",
    Severity.CAUTION,
    "docs/design/method.md, Order",
    _check,
    place=201,
)
