"""Reports points that were measured once."""

from collections import Counter
from collections.abc import Iterator

from pgdyno.analyse.pairs import metric_of
from pgdyno.audit.finding import Evidence, MissingError, Rule, RuleFinding, Severity
from pgdyno.audit.subject import Subject
from pgdyno.messages import Message


def _check(subject: Subject) -> Iterator[RuleFinding]:
    if not subject.samples:
        raise MissingError(Message("no-finished-trial", "no trial finished"))
    if subject.manifest.finds_settings:
        # its proposals are measured once, and only the pairs that confirm them make a claim
        return
    least = metric_of(subject.manifest, subject.run.trials).fewest_pairs
    names = {sample.number: f"{sample.target} {sample.trial.point.model_dump_json()}" for sample in subject.samples}
    counts = Counter(names.values())
    once = [sample for sample in subject.samples if counts[names[sample.number]] == 1]
    fewest = min(counts.values())
    if once:
        yield RuleFinding(
            Severity.CAUTION,
            Message(
                "no-repeats",
                "{points} point of {all} was measured once: the spread between trials is unknown",
                "{points} points of {all} were measured once: the spread between trials is unknown",
                count=len(once),
                points=len(once),
                all=len(counts),
            ),
            [sample.number for sample in once],
            [Evidence(at=once[0].figure_location(), figures={"points": len(counts), "measured_once": len(once)})],
            f"repeat every point; a claim needs {least} trials",
        )
    elif fewest < least:
        yield RuleFinding(
            Severity.NOTE,
            Message(
                "no-repeats-few",
                "points have {trials} trial: a claim needs at least {least}",
                "points have {trials} trials: a claim needs at least {least}",
                trials=fewest,
                least=least,
            ),
            (),
            [Evidence(at="manifest", figures={"fewest_trials": fewest})],
            "repeat every point more often" if subject.imported else f"set trial.repeats = {least}",
        )


RULE = Rule(
    "no-repeats",
    "trials of each point at each target: caution for one, a note below six",
    Severity.CAUTION,
    "docs/design/method.md, Interval",
    _check,
    place=270,
)
