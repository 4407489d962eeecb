"""Reports cold runs of queries that found their tables in memory."""

from collections.abc import Iterator

from pgdyno.audit.finding import Evidence, MissingError, Rule, RuleFinding, Severity
from pgdyno.audit.subject import Subject
from pgdyno.messages import Message

LARGEST_SHARE = 0.05
"""Of the tables' pages: the start of the server reads some of the catalogue."""


def _check(subject: Subject) -> Iterator[RuleFinding]:
    cold = [
        (sample, run, run.cached_share)
        for sample in subject.samples
        for run in sample.summary.queries
        if run.cached_share is not None
    ]
    if not cold:
        raise MissingError(Message("no-cold-runs", "no query ran cold"))
    warm = [each for each in cold if each[2] > LARGEST_SHARE or each[1].blocks_read == 0]
    if warm:
        worst, run, share = max(warm, key=lambda each: each[2])
        yield RuleFinding(
            Severity.INVALID,
            Message(
                "cold-was-warm",
                "{query} ran cold in trial {trial} with {share:.0%} of the tables in the kernel's cache, and the "
                "server read {blocks:,} blocks",
                query=run.query,
                trial=worst.number,
                share=share,
                blocks=run.blocks_read or 0,
            ),
            sorted({sample.number for sample, *_ in warm}),
            [Evidence(at=sample.figure_location(), figures={"cached_share": each}) for sample, _, each in warm],
            "let nothing else read the server's files, such as a backup or another server on the same data",
        )


RULE = Rule(
    "cold-was-warm",
    "cold runs of query files: invalid if more than 5 % of the pages of the cluster's tables were in the kernel's "
    "cache before one, or the server read no block",
    Severity.INVALID,
    "docs/guides/queries.md",
    _check,
    place=194,
)
