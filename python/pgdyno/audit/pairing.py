"""Finds what differs between two arms besides what is compared: what refuses the comparison, confounds it, or is
unknown.

An arm is a target of a run. Fingerprints are compared first; then the audit's rules about pairs see both arms as the
targets of one run (`audit.pair_run`).
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pgdyno.analyse.pairs import VERSION, Confounder, Metric, arm_name, differing_parameters
from pgdyno.analyse.rate_unit import rate_unit
from pgdyno.analyse.series import named
from pgdyno.audit.arms import PairRun, Side
from pgdyno.audit.finding import Finding, Severity
from pgdyno.audit.latency_differences import latency_differences
from pgdyno.audit.rules import (
    cache_differs,
    dataset_differs,
    drift,
    durability,
    hardware_differs,
    network_floor,
    placement_differs,
    settings_differ,
    version_differs,
)
from pgdyno.audit.setting_values import alike, values_at, with_session_settings
from pgdyno.audit.subject import AuditRun, Subject
from pgdyno.errors import UsageError
from pgdyno.fingerprint.differences import (
    HEAVY_SETTINGS,
    UNKNOWN,
    Difference,
    comparable,
    print_of,
    topic_of,
    unknown_of,
)
from pgdyno.fingerprint.differences import Severity as Weight
from pgdyno.messages import Message
from pgdyno.records import Fingerprint, Manifest, TrialRecord
from pgdyno.records.tpcc_profile import unused_item

TOPICS = {
    durability.RULE.id: "setting",
    settings_differ.RULE.id: "setting",
    network_floor.RULE.id: "network path",
    placement_differs.RULE.id: "placement",
    hardware_differs.RULE.id: "hardware",
    version_differs.RULE.id: VERSION,
    cache_differs.RULE.id: "cache contents",
    dataset_differs.RULE.id: "dataset size",
}
"""Rules about pairs, whose findings concern the comparison and no single trial, with the topic of each."""
ABOUT_ARMS = frozenset([*TOPICS, drift.RULE.id])
"""Rules that judge how the trials of the arms relate to each other: leaving out the trials that they name would leave
no arm.
"""
PAIR_RULES = (
    durability.RULE,
    settings_differ.RULE,
    network_floor.RULE,
    placement_differs.RULE,
    hardware_differs.RULE,
    version_differs.RULE,
    cache_differs.RULE,
    dataset_differs.RULE,
)
GROUPS = {
    "hardware": frozenset(["processor", "memory", "hypervisor", "storage"]),
    "placement": frozenset(["network path"]),
    "scale": frozenset(["dataset", "dataset size"]),
}
"""Topics covered by each argument of `--by`."""
FACTORS = (VERSION, "hardware", "storage", "kernel", "placement", "settings", "protocol", "scale", "rate", "workers")
"""What `--by` may name for two runs, besides `settings.NAME` and `variables.NAME`."""
LOAD = ("phase", "event")
"""Tables of a plan that determine the load over time."""
OTHER_LENGTH = Message("other-trial-length", "different trial lengths")
LOADS = {
    "scripts": (Weight.REFUSED, Message("other-workload", "different workloads")),
    "loop": (Weight.REFUSED, Message("other-load-model", "different load models")),
    "transactions": (Weight.CONFOUNDER, OTHER_LENGTH),
}
OTHER_OPTION = (Weight.CONFOUNDER, Message("other-options", "different options of the load"))
"""How much each difference of the loads of two imported runs weighs; lengths are compared for all runs."""
MOST_NUMBERS = 10
"""The largest number of trials that a note names."""
LENGTH_TOLERANCE_S, LENGTH_TOLERANCE = 1.0, 0.02
"""How far trials of imported runs may be apart in length, in seconds and relative."""
REFUSING = {
    "protocol": Message("other-protocol", "different protocols"),
    "scale": Message("other-scale", "different scales"),
    "rate": Message("other-rate", "different load models or rates"),
}


@dataclass(frozen=True, slots=True)
class Pairing:
    """What differs between two arms besides what is compared."""

    refused: list[Difference] = field(default_factory=list)
    invalid: list[Finding] = field(default_factory=list)
    """Invalid findings of the rules about pairs: they refuse a comparison of two runs, as they do within one run."""
    confounders: list[Confounder] = field(default_factory=list)
    cautions: list[Message] = field(default_factory=list)
    """Lesser differences, and what is unknown."""


def pairing_between(base: AuditRun, other: AuditRun, by: str | None = None, metric: Metric = Metric.TPS) -> Pairing:
    """Return what differs between two runs besides `by`; a differing server version counts as compared unless `by`
    names it.

    Targets are matched as in `analyse.pairs.between`. Raises UsageError.
    """
    factor = _factor(by)
    found = Pairing()
    sides = sides_of(base, other)
    differences = [
        *_of_points(base, other),
        *_of_lengths(base, other),
        *_of_plans(base.manifest, other.manifest),
        *_of_loads(base, other),
        *_of_unused_items(base, other),
        *(() if metric.is_latency else _of_units(base.trials, other.trials)),
        *(latency_differences(base.trials, other.trials) if metric.is_latency else ()),
    ]
    prints = [_print_of(run) for run in (base, other)]
    if prints[0] is not None and prints[1] is not None:
        # the points contain the scale: the plan's differs if the sweep sets it
        of_prints = without_alike(comparable(prints[0], prints[1]), sides)
        differences += [each for each in of_prints if topic_of(each.field) != "scale"]
    _sort(differences, factor, found)
    for pair in sides:
        _add_findings(pair, factor, found)
        _sort(_of_servers(*pair), factor, found)
    found.cautions.extend(_unknown(base.manifest, other.manifest))
    return found


def pairing_within(run: AuditRun, by: str, base: Iterable[str], other: Iterable[str]) -> Pairing:
    """Return what differs between the targets `base` and `other` of a run, which are compared by `by`.

    If targets of one version are compared, their settings are what is compared; if their versions differ, too, the
    settings are not.
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
        prints = [_of_target(_print_of(run), name) for name in (a, b)]
        if prints[0] is not None and prints[1] is not None:
            _sort(without_alike(comparable(prints[0], prints[1]), [sides]), factor, found)
        _add_findings(sides, factor, found)
    # the plan chose the lesser differences within one run, and the audit names them
    found.cautions.clear()
    return found


def pairing_of_arms(run: AuditRun, by: str, base: str, other: str, metric: Metric = Metric.TPS) -> Pairing:
    """Return what differs between two arms of a run that are compared by `metric`.

    `base` and `other` are named as in `analyse.pairs.within`.
    """
    found = _pairing_of_servers(run, by, base, other)
    name_of = arm_name(run.manifest, run.trials, by)
    arms = [[trial for trial in run.trials if name_of(trial) == arm] for arm in (base, other)]
    _sort(latency_differences(*arms) if metric.is_latency else _of_units(*arms), by, found)
    return found


def _pairing_of_servers(run: AuditRun, by: str, base: str, other: str) -> Pairing:
    """Return what differs between the servers of two arms; arms of one target share them."""
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
    a, b = (_of_target(_print_of(run), name) for name in (base, other))
    differences = without_alike(comparable(a, b), [sides]) if a is not None and b is not None else []
    differences = [each for each in differences if _makes_unequal(each)]
    found = Pairing()
    _add_findings(sides, "", found)
    known = {topic_of(each.field) for each in differences} | CHANGING
    return [
        *map(words_of, differences),
        *(each.translatable_message for each in found.invalid if topic_of_pair(each) not in known),
        *(each.message for each in found.confounders if each.topic not in known),
    ]


CHANGING = {TOPICS[rule.id] for rule in (cache_differs.RULE, dataset_differs.RULE, network_floor.RULE)}
"""Topics of rules that judge by the trials' figures, which differ by chance between equal targets."""


def _makes_unequal(difference: Difference) -> bool:
    topic = topic_of(difference.field)
    if difference.severity in (Weight.REFUSED, Weight.CONFOUNDER) or topic == VERSION:
        return difference.why != UNKNOWN
    return _CHANGED in difference.field and topic not in settings_differ.ITS_OWN


def _factor(by: str | None) -> str:
    if by is None:
        return VERSION
    if by in FACTORS or by.partition(".")[0] in ("settings", "variables"):
        return by
    names = ", ".join([*FACTORS, "settings.NAME", "variables.NAME"])
    raise UsageError(f"two runs cannot be compared by {by}", hint=f"name what was changed between them: {names}")


def _covers(factor: str, topic: str, where: str) -> bool:
    """Return whether `factor`, which is compared, is the difference in `topic`, found at `where`."""
    if factor == "settings" or factor.startswith("settings."):
        is_setting = _CHANGED in where or where.startswith("settings.") or where in _OF_SETTINGS
        return is_setting and factor in ("settings", f"settings.{topic}")
    return topic == factor or topic in GROUPS.get(factor, ())


_OF_SETTINGS = (durability.RULE.id, settings_differ.RULE.id)


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
    """Return the matched targets of two runs."""
    return [(Side(base, a), Side(other, b)) for a, b in _matched(base, other)]


def without_alike(differences: Sequence[Difference], sides: Sequence[tuple[Side, Side]]) -> list[Difference]:
    """Return `differences` without settings of equal value: a default and its explicit value, 1GB and 1024MB.

    `sides` are the matched targets; the first of a pair gives its name to the fields.
    """
    names = {topic_of(each.field) for each in differences if _CHANGED in each.field}
    kept = [[values_at(side.run, names).get(side.target, {}) for side in pair] for pair in sides]

    def is_alike(each: Difference) -> bool:
        target, changed, name = each.field.removeprefix("servers.").partition(_CHANGED)
        return bool(changed) and any(
            alike([each.a, each.b], [values.get(name) for values in of])
            for pair, of in zip(sides, kept, strict=True)
            if pair[0].target == target
        )

    return [each for each in differences if not is_alike(each)]


_CHANGED = ".settings_changed."


def words_of(difference: Difference) -> Message:
    """Describe a difference in one sentence."""
    is_setting = "settings" in difference.field
    absent = Message("default-value", "default") if is_setting else Message("no-value", "none")
    a, b = (absent if text is None else text for text in (difference.a, difference.b))
    return Message("difference", "{field}: {a} vs {b}: {why}", field=difference.field, a=a, b=b, why=difference.why)


def _add(found: Pairing, confounder: Confounder) -> None:
    if all((each.topic, each.field) != (confounder.topic, confounder.field) for each in found.confounders):
        found.confounders.append(confounder)


def _add_findings(sides: tuple[Side, Side], factor: str, found: Pairing) -> None:
    """Add findings of the audit's rules about pairs, except what the fingerprints have shown already."""
    if sides[0].imported != sides[1].imported:
        return
    known = {each.topic for each in found.confounders}
    subject = Subject(PairRun(*sides))
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


def _advice(finding: Finding, topic: str) -> str:
    """Return the advice for a finding that refuses two runs: the rule's advice, or to name what is compared."""
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
    """Return whether a finding concerns both arms: a rule may also report trials of one arm, or what both have in
    common.
    """
    if finding.rule == durability.RULE.id:
        return finding.severity is Severity.INVALID
    if finding.rule == version_differs.RULE.id:
        return True
    if finding.rule in (network_floor.RULE.id, placement_differs.RULE.id):
        named = {str(each.figures["target"]) for each in finding.evidence if "target" in each.figures}
        return len(named) > 1
    if finding.rule in (cache_differs.RULE.id, dataset_differs.RULE.id):
        # arms of one target that a run sweeps do not concern the pair
        named = {str(each.figures["arm"]).partition(",")[0] for each in finding.evidence}
        return len(named) > 1
    return finding.severity is not Severity.NOTE


def _of_servers(base: Side, other: Side) -> Iterator[Difference]:
    """Compare the machines that rented and remote servers reported."""
    seen = [[trial.way for trial in side.trials() if trial.way is not None] for side in (base, other)]
    for name, why in (
        ("instance", Message("other-class", "different server classes")),
        ("cpu_model", Message("other-server-processor", "different server processors")),
    ):
        known = [sorted({str(value) for way in ways if (value := getattr(way, name)) is not None}) for ways in seen]
        if all(known) and known[0] != known[1]:
            yield Difference(f"way.{name}", ", ".join(known[0]), ", ".join(known[1]), Weight.CONFOUNDER, why)


def _matched(base: AuditRun, other: AuditRun) -> list[tuple[str, str]]:
    names = [list(dict.fromkeys(trial.target for trial in run.trials)) for run in (base, other)]
    if [len(each) for each in names] == [1, 1]:
        return [(names[0][0], names[1][0])]
    return [(name, name) for name in names[0] if name in names[1]]


def _of_points(base: AuditRun, other: AuditRun) -> Iterator[Difference]:
    """Compare parameters of the sweep."""
    imported = [run.manifest.imported is not None for run in (base, other)]
    for each in differing_parameters(base.trials, other.trials):
        values = (each.base, each.other)
        # an open loop always has a rate; any other absent value was not reported, or is a default
        a, b = (_shown(each.name, value) for value in values)
        untold = any(value in (None, "") and of for value, of in zip(values, imported, strict=True))
        weight, why = (Weight.CAUTION, UNKNOWN) if untold and each.name != "rate" else _weight(each.name)
        yield Difference(each.name, a, b, weight, why)


def _of_lengths(base: AuditRun, other: AuditRun) -> Iterator[Difference]:
    """Compare lengths of trials and of their warm-ups; tools report no warm-up."""
    are_imported = [run.manifest.imported is not None for run in (base, other)]
    lengths = [sorted({trial.duration_s for trial in run.trials if trial.duration_s}) for run in (base, other)]
    if any(are_imported):
        lengths = [sorted({round(each) or each for each in of}) for of in lengths]
    are_equal = _equally_long if any(are_imported) else operator.eq
    if all(lengths) and not are_equal(*lengths):
        yield Difference("trial.duration", *_in_seconds(lengths), Weight.CONFOUNDER, OTHER_LENGTH)
    counts = [sorted({trial.transactions for trial in run.trials if trial.transactions}) for run in (base, other)]
    is_known = all(counts) or not any(are_imported)
    # two imported runs have it among the options of their loads
    if counts[0] != counts[1] and is_known and not all(are_imported):
        a, b = (", ".join(map(str, of)) or None for of in counts)
        yield Difference("trial.transactions", a, b, Weight.CONFOUNDER, OTHER_LENGTH)
    warmups = [sorted({trial.warmup_s for trial in run.trials}) for run in (base, other)]
    if all(warmups) and warmups[0] != warmups[1] and not any(are_imported):
        why = Message("other-warm-up", "different warm-ups")
        yield Difference("trial.warmup", *_in_seconds(warmups), Weight.CONFOUNDER, why)


def _in_seconds(lengths: Sequence[Sequence[float]]) -> tuple[str, str]:
    a, b = (", ".join(f"{each:g} s" for each in of) for of in lengths)
    return a, b


def _equally_long(base: Sequence[float], other: Sequence[float]) -> bool:
    """Return whether the shortest and the longest of two sorted lists agree: tools print times that elapsed, which are
    never exactly those that were asked for.
    """
    ends = ((base[0], other[0]), (base[-1], other[-1]))
    return all(abs(a - b) <= max(LENGTH_TOLERANCE_S, LENGTH_TOLERANCE * min(a, b)) for a, b in ends)


def _shown(name: str, value: float | str | None) -> str | None:
    if name == "rate":
        return named("rate", value)
    return None if value in (None, "") else str(value)


def measures_otherwise(parameter: str) -> bool:
    """Return whether two runs measured different things if one value of `parameter` differs."""
    return _weight(parameter)[0] is Weight.REFUSED


def _weight(name: str) -> tuple[Weight, Message]:
    group, _, key = name.partition(".")
    if group == "variables":
        return Weight.REFUSED, Message("other-workload", "different workloads")
    if group == "settings":
        heavy = key in HEAVY_SETTINGS
        why = Message("other-setting", "different server settings")
        return (Weight.CONFOUNDER if heavy else Weight.CAUTION), why
    if name in REFUSING:
        return Weight.REFUSED, REFUSING[name]
    return Weight.CONFOUNDER, Message("other-workers", "different numbers of generator threads")


def _of_plans(base: Manifest, other: Manifest) -> Iterator[Difference]:
    """Compare what no fingerprint contains: the commit ledger, phases, events, hooks and the probe; for an imported
    run, the workload's name.
    """
    a, b = ("true" if (each.plan.get("trial") or {}).get("ledger") else None for each in (base, other))
    if a != b:
        why = Message("other-ledger", "a commit ledger on one of the runs only, which adds statements to transactions")
        yield Difference("trial.ledger", a, b, Weight.REFUSED, why)
    if base.imported is None and other.imported is None:
        for name in LOAD:
            a, b = base.plan.get(name), other.plan.get(name)
            if a != b:
                of_base, of_other = (f"{len(each)} in the plan" if each else None for each in (a, b))
                why = Message("other-load-model", "different load models")
                yield Difference(name, of_base, of_other, Weight.REFUSED, why)
        yield from _of_surroundings(base.plan, other.plan)
        return
    if base.script_names is not None and other.script_names is not None and not base.script_names & other.script_names:
        why = Message("other-workload", "different workloads")
        yield Difference("workload", base.workload, other.workload, Weight.REFUSED, why)


def _of_surroundings(base: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[Difference]:
    """Compare what runs around the load: hooks may change the server, and the probe takes some of its time."""
    hooks = [{when: each for when, each in (of.get("hooks") or {}).items() if each} for of in (base, other)]
    if hooks[0] != hooks[1]:
        a, b = (f"{len(of)} in the plan" if of else None for of in hooks)
        yield Difference("hooks", a, b, Weight.CAUTION, Message("other-hooks", "different commands around the trials"))
    probes = [of.get("probe") for of in (base, other)]
    # earlier versions had none in their plans
    if all(probes):
        a, b = (str(of.get("enabled", True)).lower() for of in probes if of)
        if a != b:
            why = Message("probe-in-one", "a probe in one of the runs only, which takes some of the server's time")
            yield Difference("probe.enabled", a, b, Weight.CAUTION, why)


def _of_loads(base: AuditRun, other: AuditRun) -> Iterator[Difference]:
    """Compare what the outputs of two imported runs say about their loads, where each run says one thing."""
    told = [[trial.imported.load for trial in run.trials if trial.imported is not None] for run in (base, other)]
    for name in dict.fromkeys(name for of in told for load in of for name in load if name != "duration_s"):
        of_base, of_other = ({load[name] for load in of if name in load} for of in told)
        if len(of_base) == len(of_other) == 1 and of_base != of_other:
            weight, why = LOADS.get(name, OTHER_OPTION)
            yield Difference(f"load.{name}", of_base.pop(), of_other.pop(), weight, why)


def _of_unused_items(base: AuditRun, other: AuditRun) -> Iterator[Difference]:
    """Compare what the server does with an order that contains an unused item, if a run is imported from HammerDB; for
    other runs, fingerprints contain the profile.
    """
    if base.manifest.imported is None and other.manifest.imported is None:
        return
    items = [_unused_items(run) for run in (base, other)]
    if not all(items) or items[0] == items[1]:
        return
    of_base, of_other = (", ".join(sorted(of)) for of in items)
    why = Message("other-unused-item", "the server does different work for one New-Order in a hundred")
    differ = len(set.union(*items) - {UNKNOWN_ITEM}) > 1
    yield Difference(
        "unused_item", of_base, of_other, *((Weight.REFUSED, why) if differ else (Weight.CAUTION, UNKNOWN))
    )


def _of_units(base: Iterable[TrialRecord], other: Iterable[TrialRecord]) -> Iterator[Difference]:
    """Compare what the throughput of imported trials counts."""
    units = [{rate_unit(trial) for trial in of if trial.summary is not None} for of in (base, other)]
    if all(units) and units[0] != units[1]:
        a, b = (", ".join(sorted(of)) for of in units)
        yield Difference(UNIT, a, b, Weight.REFUSED, Message("other-rate-unit", "different units of throughput"))


UNIT = "unit"
"""The field of differences between units of throughput."""
UNKNOWN_ITEM = "unknown"


def _unused_items(run: AuditRun) -> set[str]:
    """Return what the server did in the trials; empty if they are not of TPC-C."""
    workload = run.manifest.plan.get("workload") or {}
    if workload.get("name") == "tpcc":
        return {unused_item(workload.get("profile", ""), workload.get("variant", ""))}
    imported = [trial.imported for trial in run.trials if trial.imported is not None]
    return {each.unused_item or UNKNOWN_ITEM for each in imported if each.tool == "hammerdb"}


def _print_of(run: AuditRun) -> Fingerprint | None:
    """Return the fingerprint of a run, in which the settings of the load's sessions count as the server's."""
    taken = print_of(run.manifest)
    if taken is None:
        return None
    servers = {
        name: server.model_copy(
            update={"settings_changed": with_session_settings(run.trials, name, server.settings_changed)}
        )
        for name, server in taken.servers.items()
    }
    return taken.model_copy(update={"servers": servers})


def _of_target(taken: Fingerprint | None, name: str) -> Fingerprint | None:
    """Return the fingerprint of the target `name` alone, with its own disks."""
    if taken is None or name not in taken.servers:
        return None
    disks = {role: disk for role, disk in taken.host.disks.items() if role.endswith(f" of {name}")}
    host = taken.host.model_copy(update={"disks": disks})
    return taken.model_copy(update={"host": host, "servers": {name: taken.servers[name]}})


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
        rules="; ".join(f"{each.rule} ({_numbered(each.trials)})" for each in findings),
    )


def _numbered(trials: Sequence[int]) -> str:
    return f"trial{'' if len(trials) == 1 else 's'} {_numbers(trials)}"


def _numbers(trials: Sequence[int]) -> str:
    shown = ", ".join(map(str, trials[:MOST_NUMBERS]))
    return shown if len(trials) <= MOST_NUMBERS else f"{shown} and {len(trials) - MOST_NUMBERS} more"
