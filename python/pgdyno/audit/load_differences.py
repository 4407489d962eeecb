"""Compares the loads of two runs: parameters of the sweep, lengths of trials, the plans' tables, imported outputs."""

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pgdyno.analyse.pairs import differing_parameters
from pgdyno.analyse.series import parameter_label
from pgdyno.audit.subject import AuditRun
from pgdyno.fingerprint.differences import HEAVY_SETTINGS, UNKNOWN, Difference, Weight
from pgdyno.messages import Message
from pgdyno.records import Manifest, TrialRecord
from pgdyno.records.rate_unit import rate_unit
from pgdyno.records.tpcc_profile import unused_item

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
LENGTH_TOLERANCE_S, LENGTH_TOLERANCE = 1.0, 0.02
"""How far trials of imported runs may be apart in length, in seconds and relative."""
REFUSING = {
    "protocol": Message("other-protocol", "different protocols"),
    "scale": Message("other-scale", "different scales"),
    "rate": Message("other-rate", "different load models or rates"),
}


def load_differences(base: AuditRun, other: AuditRun) -> Iterator[Difference]:
    """Yield what differs between the loads of two runs."""
    yield from _of_points(base, other)
    yield from _of_lengths(base, other)
    yield from _of_plans(base.manifest, other.manifest)
    yield from _of_loads(base, other)
    yield from _of_unused_items(base, other)
    yield from worker_differences(base.trials, other.trials)


def worker_differences(base: Sequence[TrialRecord], other: Sequence[TrialRecord]) -> Iterator[Difference]:
    """Yield the points at which pgdrive chose different numbers of threads for the two."""
    a, b = _workers(base), _workers(other)
    for clients in sorted(a.keys() & b.keys()):
        if a[clients] != b[clients]:
            mine, others = (", ".join(map(str, sorted(each[clients]))) for each in (a, b))
            why = Message("other-workers", "different numbers of generator threads")
            yield Difference("workers", mine, others, Weight.CONFOUNDER, why)
            return


def _workers(trials: Sequence[TrialRecord]) -> dict[int, set[int]]:
    found: dict[int, set[int]] = {}
    for trial in trials:
        if trial.generator is not None and trial.point.workers is None and not trial.generator.hosts:
            found.setdefault(trial.point.clients or 0, set()).add(trial.generator.workers)
    return found


def _of_points(base: AuditRun, other: AuditRun) -> Iterator[Difference]:
    imported = [run.manifest.imported is not None for run in (base, other)]
    for each in differing_parameters(base.trials, other.trials):
        values = (each.base, each.other)
        # an open loop always has a rate; any other absent value was not reported, or is a default
        a, b = (_value_text(each.name, value) for value in values)
        untold = any(value in (None, "") and of for value, of in zip(values, imported, strict=True))
        weight, why = (Weight.CAUTION, UNKNOWN) if untold and each.name != "rate" else _weight(each.name)
        yield Difference(each.name, a, b, weight, why)


def _of_lengths(base: AuditRun, other: AuditRun) -> Iterator[Difference]:
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


def _value_text(name: str, value: float | str | None) -> str | None:
    if name == "rate":
        return parameter_label("rate", value)
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
    told = [[trial.imported.load for trial in run.trials if trial.imported is not None] for run in (base, other)]
    for name in dict.fromkeys(name for of in told for load in of for name in load if name != "duration_s"):
        of_base, of_other = ({load[name] for load in of if name in load} for of in told)
        if len(of_base) == len(of_other) == 1 and of_base != of_other:
            weight, why = LOADS.get(name, OTHER_OPTION)
            yield Difference(f"load.{name}", of_base.pop(), of_other.pop(), weight, why)


def _of_unused_items(base: AuditRun, other: AuditRun) -> Iterator[Difference]:
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


def unit_differences(base: Iterable[TrialRecord], other: Iterable[TrialRecord]) -> Iterator[Difference]:
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
