"""Reports queries that take longer with another constant than when their text is repeated."""

import math
from collections.abc import Iterator

from pgdyno.analyse.queries.changed_texts import change_effects
from pgdyno.audit.finding import Evidence, MissingError, Rule, RuleFinding, Severity
from pgdyno.audit.subject import Subject
from pgdyno.messages import Message

LEAST_RATIO, LEAST_S = 1.5, 0.0001
"""The server reads the other constant, too, which takes 0.03 ms."""


def _check(subject: Subject) -> Iterator[RuleFinding]:
    samples = {sample.number: sample for sample in subject.samples}
    effects = change_effects(sample.trial for sample in samples.values())
    if not effects:
        raise MissingError(Message("no-changed-texts", "no query ran with another constant in two trials"))
    for effect in effects:
        if effect.interval.low > math.log(LEAST_RATIO) and effect.longer_s > LEAST_S:
            ratio = math.exp(effect.interval.mean)
            yield RuleFinding(
                Severity.INVALID,
                Message(
                    "results-cached",
                    "{query} takes {ratio:.1f} times as long with another constant as when its text is repeated: its "
                    "result is kept",
                    query=effect.query,
                    ratio=ratio,
                ),
                effect.trials,
                [Evidence(at=samples[number].figure_location(), figures={"ratio": ratio}) for number in effect.trials],
                "connect to the server itself, without a proxy or an extension that keeps results",
            )


RULE = Rule(
    "results-cached",
    "the time of each query with another constant that changes neither plan nor result, and of the same text again: "
    "invalid if the former is surely more than 1.5 times as long and 0.1 ms longer",
    Severity.INVALID,
    "docs/guides/queries.md",
    _check,
    place=195,
)
