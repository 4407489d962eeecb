"""Reports hosts that swapped during trials."""

from collections.abc import Iterator, Set

from pgdyno.audit.arms import Arms, compared_arms
from pgdyno.audit.finding import MissingError, Rule, RuleFinding, Severity, evidence_of
from pgdyno.audit.rules.maintenance_one_arm import MANY
from pgdyno.audit.subject import Subject
from pgdyno.messages import Message
from pgdyno.units import format_size

LEAST_BYTES = 1 << 20
"""An idle host writes a few forgotten pages to swap now and then."""
_PAGING = [("paging", "swapped_in"), ("paging", "swapped_out")]


def _check(subject: Subject) -> Iterator[RuleFinding]:
    amounts = subject.run.amounts_within(subject.measured, _PAGING)
    if not any(amounts.values()):
        raise MissingError(Message("no-host-paging", "no probe sampled the paging of the server's host"))
    swapped = {trial: sum(found.values()) for (trial, _), found in amounts.items()}
    samples = [sample for sample in subject.samples if swapped.get(sample.number, 0) > LEAST_BYTES]
    if samples:
        most = max(swapped[sample.number] for sample in samples)
        yield RuleFinding(
            Severity.CAUTION,
            Message(
                "swapping",
                "the server's host swapped up to {most} in {trials} of {all} trials",
                most=format_size(round(most)),
                trials=len(samples),
                all=len(swapped),
            ),
            *evidence_of({each: {"swapped_bytes": round(swapped[each.number])} for each in samples}),
            "lower shared_buffers or work_mem, stop other programs, or use a host with more memory",
        )
        yield from _in_one_arm(compared_arms(subject), {sample.number for sample in samples})


def _in_one_arm(arms: Arms, swapped: Set[int]) -> Iterator[RuleFinding]:
    numbers = {name: [each.number for each in samples] for name, samples in arms.items()}
    without = [name for name, some in numbers.items() if not swapped & set(some)]
    for name, some in numbers.items():
        met = [number for number in some if number in swapped]
        if without and len(met) >= MANY * len(some):
            yield RuleFinding(
                Severity.CAUTION,
                Message(
                    "swapping-one-arm",
                    "the host swapped in {trials} of {all} trials of {at}, and in none of {others}",
                    trials=len(met),
                    all=len(some),
                    at=name,
                    others=", ".join(without),
                ),
                met,
                advice="compare both on a host with enough memory, unless memory is what is compared",
            )


RULE = Rule(
    "swapping",
    "bytes that the server's host read from swap or wrote to it in the measured part: caution above 1 MiB. A generator "
    "on the same host swaps with it",
    Severity.CAUTION,
    "docs/reference/probe.md, paging",
    _check,
    place=115,
    topic="swapping",
)
