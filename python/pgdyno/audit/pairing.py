"""Finds what differs between two arms besides what is compared: what refuses the comparison, confounds it, or is
unknown.

An arm is a target of a run. Fingerprints are compared first; then the audit's rules about pairs see both arms as the
targets of one run (`audit.pair_run`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from pgdyno.analyse.comparison import Comparison
from pgdyno.analyse.pairs import VERSION, Arms, Confounder, Metric, arm_name
from pgdyno.audit.arms import Side, pair_run
from pgdyno.audit.facts import (
    CHANGED,
    CLASS,
    fingerprint_of_run,
    server_differences,
    target_differences,
    without_alike,
    words_of,
)
from pgdyno.audit.finding import Finding, Severity
from pgdyno.audit.latency_differences import latency_differences
from pgdyno.audit.load_differences import load_differences, unit_differences, worker_differences
from pgdyno.audit.rules import (
    cache_differs,
    dataset_differs,
    default_differs,
    drift,
    durability,
    errors_one_arm,
    maintenance_one_arm,
    network_floor,
    other_load,
    placement_differs,
    settings_differ,
    swapping,
    version_differs,
)
from pgdyno.audit.run_rules import RULES
from pgdyno.audit.subject import AuditRun, Subject
from pgdyno.errors import UsageError
from pgdyno.fingerprint.differences import UNKNOWN, Difference, Weight, comparable, topic_of, unknown_of
from pgdyno.messages import Message
from pgdyno.records import Manifest

PAIR_RULES = tuple(rule for rule in RULES if rule.topic)
TOPICS = {rule.id: rule.topic for rule in PAIR_RULES}
"""Rules about pairs, whose findings concern the comparison and no single trial, with the topic of each."""
ABOUT_ARMS = frozenset([*TOPICS, drift.RULE.id])
"""Rules that judge how the trials of the arms relate: leaving out the trials that they name would leave no arm."""
POOLER = "pooler"
SOURCES = "sources"
GROUPS = {
    "hardware": frozenset(["processor", "memory", "hypervisor", "storage"]),
    "placement": frozenset(["network path"]),
    "scale": frozenset(["dataset", "dataset size"]),
    "server": frozenset(["standby", "TLS"]),
    SOURCES: frozenset([VERSION, "shared_preload_libraries"]),
}
"""Topics covered by each argument of `--by`, and by sources that differ."""
FACTORS = (
    VERSION,
    "server", "hardware", "storage", "kernel", "placement", "settings", POOLER, "protocol", "scripts", "scale",
    "indexes", "rate", "workers",
)  # fmt: skip
"""What `--by` may name for two runs, besides `settings.NAME` and `variables.NAME`."""
MOST_NUMBERS = 10
"""The largest number of trials that a note names."""


Compared = TypeVar("Compared", Arms, Comparison)


@dataclass(frozen=True, slots=True)
class Pairing:
    """What differs between two arms besides what is compared."""

    refused: list[Difference] = field(default_factory=list)
    invalid: list[Finding] = field(default_factory=list)
    """Invalid findings of the rules about pairs: they refuse a comparison of two runs, as they do within one run."""
    confounders: list[Confounder] = field(default_factory=list)
    cautions: list[Message] = field(default_factory=list)
    """Lesser differences, and what is unknown."""
    brought: list[str] = field(default_factory=list)
    """Defaults that the other version or build brings, `effective_io_concurrency 16 (1)`, if it is what is compared."""

    def with_confounders(self, arms: Compared) -> Compared:
        """Return `arms` with what else differs between them."""
        return replace(arms, confounders=tuple(self.confounders), brought=tuple(self.brought))


def pairing_between(base: AuditRun, other: AuditRun, by: str | None = None, metric: Metric = Metric.TPS) -> Pairing:
    """Return what differs between two runs besides `by`; a differing server version counts as compared unless `by`
    names it.

    Targets are matched as in `analyse.pairs.between`. Raises UsageError.
    """
    factor = _factor(by)
    found = Pairing()
    sides = sides_of(base, other)
    differences = [
        *load_differences(base, other),
        *(() if metric.is_latency else unit_differences(base.trials, other.trials)),
        *(latency_differences(base.trials, other.trials) if metric.is_latency else ()),
    ]
    prints = [fingerprint_of_run(run) for run in (base, other)]
    if prints[0] is not None and prints[1] is not None:
        # the points contain the scale: the plan's differs if the sweep sets it
        of_prints = without_alike(comparable(prints[0], prints[1]), sides)
        differences += [each for each in of_prints if topic_of(each.field) != "scale"]
    _sort(differences, factor, found)
    for pair in sides:
        _add_findings(pair, factor, found)
        _sort(server_differences(*pair), factor, found)
    found.cautions.extend(_unknown(base.manifest, other.manifest))
    return found


def pairing_within(run: AuditRun, by: str, base: Iterable[str], other: Iterable[str]) -> Pairing:
    """Return what differs between the targets `base` and `other` of a run, which are compared by `by`.

    If targets of one version are compared, what pgdyno built of them is what is compared, or their poolers, or else
    their settings; if their versions differ, too, none of these is.
    """
    found = Pairing()
    pairs = [(a, b) for a in base for b in other if a != b]
    known = version_differs.versions_of(run.manifest, run.trials)
    for a, b in pairs:
        sides = (Side(run, a), Side(run, b))
        factor = by if by != "target" else VERSION
        versions = {known[name] for name in (a, b) if name in known}
        if by == "target" and len(versions) < 2:
            factor = "settings"
        differences = target_differences(*sides)
        if factor == "settings" and any(each.field.endswith(".built") for each in differences):
            factor = SOURCES
        if factor == "settings" and any(topic_of(each.field) == POOLER for each in differences):
            factor = POOLER
        if any(each.field == CLASS for each in differences):
            # of one class, which the plan chose, servers may have other processors, which it did not
            differences = [each for each in differences if not each.field.startswith("network_path.")]
        _sort(differences, factor, found)
        _add_findings(sides, factor, found)
    # the plan chose the lesser differences within one run, and the audit names them
    found.cautions.clear()
    return found


def pairing_of_arms(run: AuditRun, by: str, base: str, other: str, metric: Metric = Metric.TPS) -> Pairing:
    """Return what differs between two arms, compared by `metric` and named as in `analyse.pairs.within`."""
    found = _pairing_of_servers(run, by, base, other)
    name_of = arm_name(run.manifest, run.trials, by)
    arms = [[trial for trial in run.trials if name_of(trial) == arm] for arm in (base, other)]
    _sort(latency_differences(*arms) if metric.is_latency else unit_differences(*arms), by, found)
    _sort(worker_differences(*arms), by, found)
    return found


def _pairing_of_servers(run: AuditRun, by: str, base: str, other: str) -> Pairing:
    if by == "target":
        return pairing_within(run, by, [base], [other])
    if by != VERSION:
        return Pairing()
    targets: dict[str, list[str]] = {}
    for each in run.manifest.targets:
        targets.setdefault(each.facts.version if each.facts else each.name, []).append(each.name)
    return pairing_within(run, by, targets.get(base, []), targets.get(other, []))


def inequalities(run: AuditRun, base: str, other: str) -> list[Message]:
    """Return in what two targets of a run differ that are to be equal; figures of their trials do not count."""
    sides = (Side(run, base), Side(run, other))
    differences = [each for each in target_differences(*sides) if _makes_unequal(each)]
    found = Pairing()
    _add_findings(sides, "", found)
    known = {topic_of(each.field) for each in differences} | CHANGING
    return [
        *map(words_of, differences),
        *(each.translatable_message for each in found.invalid if topic_of_pair(each) not in known),
        *(each.message for each in found.confounders if each.topic not in known),
    ]


_CHANGING = (
    cache_differs.RULE,
    dataset_differs.RULE,
    errors_one_arm.RULE,
    maintenance_one_arm.RULE,
    network_floor.RULE,
    other_load.RULE,
    swapping.RULE,
)
CHANGING = {TOPICS[rule.id] for rule in _CHANGING}
"""Topics of rules that judge by the trials' figures, which differ by chance between equal targets."""


def _makes_unequal(difference: Difference) -> bool:
    topic = topic_of(difference.field)
    if difference.severity in (Weight.REFUSED, Weight.CONFOUNDER) or topic == VERSION:
        return difference.why != UNKNOWN
    return CHANGED in difference.field and topic not in settings_differ.ITS_OWN


def _factor(by: str | None) -> str:
    if by is None:
        return VERSION
    if by in FACTORS or by.partition(".")[0] in ("settings", "variables"):
        return by
    names = ", ".join([*FACTORS, "settings.NAME", "variables.NAME"])
    raise UsageError(f"two runs cannot be compared by {by}", hint=f"name what was changed between them: {names}")


def _covers(factor: str, topic: str, where: str) -> bool:
    if factor == "settings" or factor.startswith("settings."):
        is_setting = CHANGED in where or where.startswith("settings.") or where in _OF_SETTINGS
        return is_setting and factor in ("settings", f"settings.{topic}")
    return topic == factor or topic in GROUPS.get(factor, ())


_OF_SETTINGS = (durability.RULE.id, settings_differ.RULE.id, default_differs.RULE.id)


def _sort(differences: Iterable[Difference], factor: str, found: Pairing) -> None:
    for each in differences:
        topic = topic_of(each.field)
        if each.severity is Weight.HARMLESS:
            continue
        words = words_of(each)
        if _covers(factor, topic, each.field):
            found.cautions.append(Message("compared", "compared: {difference}", difference=words))
        elif each.severity is Weight.REFUSED:
            found.refused.append(each)
        elif each.severity is Weight.CONFOUNDER or topic == VERSION:
            _add(found, Confounder(topic, each.field, words))
        else:
            found.cautions.append(words)


def sides_of(base: AuditRun, other: AuditRun) -> list[tuple[Side, Side]]:
    return [(Side(base, a), Side(other, b)) for a, b in _match_targets(base, other)]


def _add(found: Pairing, confounder: Confounder) -> None:
    if all((each.topic, each.field) != (confounder.topic, confounder.field) for each in found.confounders):
        found.confounders.append(confounder)


def _add_findings(sides: tuple[Side, Side], factor: str, found: Pairing) -> None:
    if sides[0].imported != sides[1].imported:
        return
    known = {each.topic for each in found.confounders}
    subject = Subject(pair_run(*sides))
    _add_defaults(sides, subject, factor, found)
    for rule in PAIR_RULES:
        for finding in rule.findings(subject):
            topic = topic_of_pair(finding)
            if not finding.checked or not _is_of_pair(finding) or _covers(factor, topic, rule.id):
                continue
            if finding.severity is Severity.INVALID:
                found.invalid.append(finding.model_copy(update={"trials": [], "advice": _advice(finding, topic)}))
                found.confounders[:] = [each for each in found.confounders if each.topic != topic]
            elif topic not in known:
                _add(found, Confounder(topic, rule.id, finding.translatable_message))


def _add_defaults(sides: tuple[Side, Side], subject: Subject, factor: str, found: Pairing) -> None:
    known = {each.topic for each in found.confounders}
    for finding in default_differs.RULE.findings(subject):
        for evidence in finding.evidence if finding.id == default_differs.RULE.id else ():
            setting, a, b = (str(each) for each in evidence.figures.values())
            if factor == VERSION and _builds_differ(sides):
                found.brought.append(f"{setting} {b} ({a})")
            elif setting not in known and not _covers(factor, setting, default_differs.RULE.id):
                why = Message("other-default", "different defaults")
                words = words_of(Difference(f"settings.{setting}", a, b, Weight.CONFOUNDER, why))
                _add(found, Confounder(setting, default_differs.RULE.id, words))


def _builds_differ(sides: tuple[Side, Side]) -> bool:
    records = [side.record for side in sides]
    return len({each.facts.version_full for each in records if each is not None and each.facts is not None}) > 1


def _advice(finding: Finding, topic: str) -> str:
    by = f"settings.{topic}" if finding.rule in _OF_SETTINGS else _factor_of(topic)
    return finding.advice + (f"; to compare this, pass --by {by}" if by is not None else "")


def _factor_of(topic: str) -> str | None:
    return topic if topic in FACTORS else next((factor for factor, of in GROUPS.items() if topic in of), None)


def topic_of_pair(finding: Finding) -> str:
    """Return the topic of a finding of a rule about pairs, in a word or two."""
    figures = finding.evidence[0].figures if finding.evidence else {}
    if finding.rule == settings_differ.RULE.id:
        return str(figures.get("setting", "settings"))
    if finding.rule == durability.RULE.id:
        return next(iter(figures), "durability")
    if finding.rule == placement_differs.RULE.id and any(name.startswith("storage") for name in figures):
        return "storage"
    return TOPICS[finding.rule]


def _is_of_pair(finding: Finding) -> bool:
    """Return whether a finding concerns both arms: it may also be of one arm, or of what both have in common."""
    if finding.rule == durability.RULE.id:
        return finding.severity is Severity.INVALID
    if finding.rule == version_differs.RULE.id:
        return True
    if finding.rule in (other_load.RULE.id, swapping.RULE.id):
        return finding.id in ("other-load-differs", "swapping-one-arm")
    if finding.rule in (network_floor.RULE.id, placement_differs.RULE.id):
        named = {str(each.figures["target"]) for each in finding.evidence if "target" in each.figures}
        return len(named) > 1
    if finding.rule in (cache_differs.RULE.id, dataset_differs.RULE.id):
        # arms of one target that a run sweeps do not concern the pair
        named = {str(each.figures["arm"]).partition(",")[0] for each in finding.evidence}
        return len(named) > 1
    return finding.severity is not Severity.NOTE


def _match_targets(base: AuditRun, other: AuditRun) -> list[tuple[str, str]]:
    names = [list(dict.fromkeys(trial.target for trial in run.trials)) for run in (base, other)]
    if [len(each) for each in names] == [1, 1]:
        return [(names[0][0], names[1][0])]
    return [(name, name) for name in names[0] if name in names[1]]


def _unknown(base: Manifest, other: Manifest) -> list[Message]:
    """Name what the record of a run lacks, so that it may differ."""
    return [
        Message(
            "not-on-record",
            "not recorded in {run}, so a difference cannot be excluded: {what}",
            run=manifest.run,
            what=", ".join(what),
        )
        for manifest in (base, other)
        if (what := unknown_of(manifest))
    ]


def of_single_trials(findings: Sequence[Finding]) -> tuple[list[Finding], list[Finding]]:
    """Return the invalid findings that concern some trials only, not the whole run or a pair."""
    invalid = [each for each in findings if each.severity is Severity.INVALID]
    whole = [each for each in invalid if not each.trials or each.rule in ABOUT_ARMS]
    return whole, [each for each in invalid if each.trials and each.rule not in ABOUT_ARMS]


def trials_of(findings: Iterable[Finding]) -> set[int]:
    return {number for finding in findings for number in finding.trials}


def left_out(run: AuditRun, findings: Sequence[Finding]) -> Message:
    """Return how many trials of a run are left out because of `findings`, and why."""
    return Message(
        "trials-left-out",
        "{trials} of {all} trials of {run} left out, because the audit found them invalid: {rules}",
        trials=len(trials_of(findings)),
        all=len(run.trials),
        run=run.manifest.run,
        rules="; ".join(f"{each.rule} ({_trial_words(each.trials)})" for each in findings),
    )


def _trial_words(trials: Sequence[int]) -> str:
    return f"trial{'' if len(trials) == 1 else 's'} {_numbers(trials)}"


def _numbers(trials: Sequence[int]) -> str:
    shown = ", ".join(map(str, trials[:MOST_NUMBERS]))
    return shown if len(trials) <= MOST_NUMBERS else f"{shown} and {len(trials) - MOST_NUMBERS} more"
