"""Reports statements whose query plan changes between the repeats of a point."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from pgdyno.audit.arms import arms_of
from pgdyno.audit.finding import Evidence, MissingError, Rule, RuleFinding, Severity
from pgdyno.audit.subject import Subject
from pgdyno.messages import Message

_SHOWN = 80
"""Characters of a statement in the message."""


def _check(subject: Subject) -> Iterator[RuleFinding]:
    if subject.imported:
        raise MissingError(Message("no-query-plans", "the source has no query plans"))
    samples = {sample.number: sample for sample in subject.samples}
    names = arms_of(subject.run.trials)
    # by the text of the statement, target and point: the trials of each shape
    found: dict[tuple[str, str, str], dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for each in subject.run.query_plans():
        for number in sorted({trial for trial, *_ in each.places} & samples.keys()):
            trial = samples[number].trial
            found[each.text, trial.target, trial.point.model_dump_json()][each.shape].append(number)
    for (text, _, _), by_shape in found.items():
        if len(by_shape) < 2:
            continue
        shapes = {number: shape for shape, numbers in by_shape.items() for number in numbers}
        ((_, most),) = Counter(shapes.values()).most_common(1)
        first = samples[min(shapes)]
        yield RuleFinding(
            Severity.CAUTION,
            Message(
                "plan-differs",
                "the query plan of {statement} differs between repeats of {arm}: {most} of {all} trials have the "
                "most frequent one",
                statement=" ".join(text.split())[:_SHOWN],
                arm=names[first.number],
                most=most,
                all=len(shapes),
            ),
            sorted(shapes),
            [
                Evidence(at=samples[number].figure_location(), figures={"shape": shape})
                for number, shape in sorted(shapes.items())
            ],
            'restore the same statistics before each trial ([reset] method = "template"), or raise '
            "default_statistics_target",
        )


RULE = Rule(
    "plan-differs",
    "query plans that EXPLAIN showed before the trials ([probe] plans = true), by statement: caution if the shape of "
    "one differs between repeats of a target at one point",
    Severity.CAUTION,
    "docs/guides/query-plans.md",
    _check,
    place=192,
)
