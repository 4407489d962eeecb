"""Reports what else differs between compared targets and arms, and can change speed, as `compare` says of two runs."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from pgdyno.analyse.pairs import VERSION
from pgdyno.audit.arms import Side, compared_arms, compares_no_arms
from pgdyno.audit.facts import CHANGED, target_differences
from pgdyno.audit.finding import Evidence, MissingError, Rule, RuleFinding, Severity
from pgdyno.audit.load_differences import worker_differences
from pgdyno.audit.subject import Subject
from pgdyno.fingerprint.differences import UNKNOWN, Difference, Weight, print_of, topic_of
from pgdyno.messages import Message
from pgdyno.units import first_names

MOST_NAMED = 5
"""The largest number of fields, such as tables, that a finding names."""
OF_RULES = (CHANGED, "host.disks", "network_path.", "workers")
"""Parts of fields on which rules of their own report; numbers of threads are compared by arm."""


def _check(subject: Subject) -> Iterator[RuleFinding]:
    if print_of(subject.manifest) is None:
        raise MissingError(Message("no-fingerprint", "the run has no fingerprint"))
    if compares_no_arms(subject.manifest):
        return
    sides = [Side(subject.run, name) for name in subject.by_target]
    for other in sides[1:]:
        found = target_differences(sides[0], other)
        is_version = any(each.field.endswith(".version") for each in found)
        yield from _findings(sides[0].target, other.target, (each for each in found if _counts(each, is_version)))
    arms = {name: [sample.trial for sample in samples] for name, samples in compared_arms(subject).items()}
    first = next(iter(arms), "")
    for name, trials in arms.items():
        yield from _findings(first, name, worker_differences(arms[first], trials))


def _counts(difference: Difference, is_version: bool) -> bool:
    if difference.severity is Weight.HARMLESS or difference.why == UNKNOWN:
        return False
    is_of_rule = any(part in difference.field for part in OF_RULES)
    return not is_of_rule and not (is_version and topic_of(difference.field) == VERSION)


def _findings(base: str, other: str, differences: Iterable[Difference]) -> Iterator[RuleFinding]:
    by_words: dict[str, list[Difference]] = defaultdict(list)
    for each in differences:
        by_words[each.why.id].append(each)
    for same in by_words.values():
        names = [each.field.removeprefix(f"servers.{base}.") for each in same]
        is_light = same[0].severity is Weight.CAUTION and topic_of(same[0].field) != VERSION
        # nobody builds servers from several sources but to compare them
        is_light |= same[0].field.endswith(".built")
        yield RuleFinding(
            Severity.NOTE if is_light else Severity.CAUTION,
            Message(
                "arms-differ", "{base} and {other}: {why}: {fields}",
                base=base, other=other, why=same[0].why, fields=first_names(names, MOST_NAMED),
            ),
            (),
            [
                Evidence(at="manifest", figures={"field": name, base: each.a or "none", other: each.b or "none"})
                for name, each in zip(names, same, strict=True)
            ],
            "make them equal, unless this is what is compared",
        )  # fmt: skip


RULE = Rule(
    "arms-differ",
    "what fingerprints and records of trials say of compared targets, and no other rule reports: a standby, TLS, build "
    "options, data checksums, collation, dataset, indexes of each table; numbers of generator threads, by arm",
    Severity.CAUTION,
    "pgdyno.fingerprint.differences",
    _check,
    place=201,
)
