"""Reports failures and retries that affect one arm more than another."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from pgdyno.audit.arms import arms_of, compared_arms, compares_no_arms
from pgdyno.audit.finding import Evidence, MissingError, Rule, RuleFinding, Severity, evidence_of
from pgdyno.audit.rules.errors import CAUTION_SHARE
from pgdyno.audit.subject import Sample, Subject
from pgdyno.messages import Message
from pgdyno.records import Outcome, TrialRecord

SIGMAS = 4.0
"""Standard deviations of the difference of two shares: chance exceeds this in 6 of 100,000 comparisons."""
WHAT = {"failed": "failed", "retried": "were retried"}


def _check(subject: Subject) -> Iterator[RuleFinding]:
    arms = compared_arms(subject)
    failed = list(_failed_trials(subject))
    yield from failed
    counted = {name: [each for each in samples if _begun_count(each)] for name, samples in arms.items()}
    is_counted = all(counted.values())
    if not is_counted and not failed:
        raise MissingError(
            Message("no-failures-in-every-arm", "transactions and failures were not counted in every arm")
        )
    for what in WHAT if counted and is_counted else ():
        if what == "failed" or all(
            each.summary.retried is not None for samples in counted.values() for each in samples
        ):
            yield from _find_more(what, counted)


def _begun_count(sample: Sample) -> int:
    """Return the transactions that succeeded or failed; 0 if failures were not counted."""
    summary = sample.summary
    return 0 if summary.failed is None else (summary.succeeded or 0) + summary.failed


def _count(what: str, sample: Sample) -> int:
    return (sample.summary.failed if what == "failed" else sample.summary.retried) or 0


def _find_more(what: str, arms: Mapping[str, Sequence[Sample]]) -> Iterator[RuleFinding]:
    begun = {name: sum(map(_begun_count, samples)) for name, samples in arms.items()}
    counts = {name: sum(_count(what, each) for each in samples) for name, samples in arms.items()}
    shares = {name: counts[name] / begun[name] for name in arms}
    low, high = min(shares, key=lambda name: shares[name]), max(shares, key=lambda name: shares[name])
    apart = shares[high] - shares[low]
    pooled = (counts[low] + counts[high]) / (begun[low] + begun[high])
    chance = SIGMAS * math.sqrt(pooled * (1 - pooled) * (1 / begun[low] + 1 / begun[high]))
    # failures in one arm only are worth a note, however few they are
    if not apart or (apart <= chance and counts[low]):
        return
    met = [sample for sample in arms[high] if _count(what, sample)]
    yield RuleFinding(
        Severity.CAUTION if apart > max(CAUTION_SHARE, chance) else Severity.NOTE,
        Message(
            "errors-one-arm",
            "{share:.2%} of the transactions {what} at {at}, and {other_share:.2%} at {other}" if counts[low] else
            "{transactions:,} of the transactions {what} at {at}, none at {other}",
            what=WHAT[what], share=shares[high], at=high, other_share=shares[low], other=low,
            transactions=counts[high],
        ),
        *evidence_of({each: {what: _count(what, each), "transactions": _begun_count(each)} for each in met}, what),
        "find out what fails: the arms did not do the same work",
    )  # fmt: skip


def _failed_trials(subject: Subject) -> Iterator[RuleFinding]:
    if compares_no_arms(subject.manifest):
        return
    names = arms_of(subject.run.trials)
    by_arm: dict[str, list[TrialRecord]] = defaultdict(list)
    for trial in subject.run.trials:
        by_arm[names[trial.number]].append(trial)
    failed = {name: [each for each in trials if each.outcome is Outcome.FAILED] for name, trials in by_arm.items()}
    without = [name for name, trials in failed.items() if not trials]
    for name, trials in failed.items() if without else ():
        if trials:
            yield RuleFinding(
                Severity.CAUTION,
                Message(
                    "errors-one-arm-trials",
                    "{trials} of {all} trials of {at} failed, and none of {others}: only the successful ones are "
                    "compared",
                    trials=len(trials),
                    all=len(by_arm[name]),
                    at=name,
                    others=", ".join(without),
                ),
                [trial.number for trial in trials],
                [Evidence(at=f"trial {each.number}", figures={"failure": _failure_reason(each)}) for each in trials],
                "find the cause, and repeat the failed trials: pgdyno run --resume RUN --redo-failed",
            )


def _failure_reason(trial: TrialRecord) -> str:
    return trial.failure.message if trial.failure is not None else str(trial.outcome)


RULE = Rule(
    "errors-one-arm",
    "failed and retried transactions and failed trials, by arm: caution if a trial failed in one arm only, or if "
    "shares of transactions are 0.1 points and 4 standard deviations apart; a note if only one arm had any",
    Severity.CAUTION,
    "docs/design/method.md, Gates",
    _check,
    place=330,
    topic="errors",
)
