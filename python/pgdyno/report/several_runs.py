"""Several runs as one, and the arms of runs compared with everything that confounds them."""

from collections.abc import Collection, Mapping, Sequence

from pgdyno.analyse.comparison import Comparison, compare
from pgdyno.analyse.over_time.timeline import RunSource
from pgdyno.analyse.pairs import Arms, Confounder, Metric, between, usual_metric, usual_split, within
from pgdyno.analyse.series import Series, text
from pgdyno.audit import Finding
from pgdyno.audit.facts import words_of
from pgdyno.audit.latency_differences import overload_findings
from pgdyno.audit.pairing import of_single_trials, pairing_between, pairing_of_arms, topic_of_pair, trials_of
from pgdyno.errors import UsageError
from pgdyno.fingerprint.differences import topic_of
from pgdyno.messages import Message
from pgdyno.records import KeptMessage, Manifest
from pgdyno.report.report_content import Digest
from pgdyno.store import RunData
from pgdyno.store.run_union import RunUnion


def unite_runs(runs: Sequence[RunSource]) -> RunSource:
    """Return `runs` read as one; the run itself if there is one. Raises UsageError for the same one twice."""
    if len(runs) == 1:
        return runs[0]
    manifests = [run.manifest for run in runs]
    runs_named = [manifest.run for manifest in manifests]
    if len(set(runs_named)) < len(runs_named):
        raise UsageError(f"a run is named twice: {', '.join(runs_named)}", hint="name each run once")
    names = target_names(runs)
    return RunUnion(runs, names, _joint_manifest(manifests, names))


def _joint_manifest(manifests: Sequence[Manifest], names: Sequence[Mapping[str, str]]) -> Manifest:
    first = manifests[0]
    targets = [
        target.model_copy(update={"name": names[at][target.name]})
        for at, manifest in enumerate(manifests)
        for target in manifest.targets
    ]
    rented = [
        each.model_copy(update={"target": names[at].get(each.target, each.target)})
        for at, manifest in enumerate(manifests)
        for each in manifest.rented
    ]
    notes = [_of_run(note, manifest.run) for manifest in manifests for note in manifest.messages]
    workloads = list(dict.fromkeys(manifest.workload for manifest in manifests))
    ended = [manifest.outcome for manifest in manifests]
    return first.model_copy(
        update={
            "run": " and ".join(manifest.run for manifest in manifests),
            "targets": targets,
            "rented": rented,
            "notes": [str(note) for note in notes],
            "note_details": [KeptMessage.from_message(note) for note in notes if isinstance(note, Message)],
            "workload": " and ".join(workloads),
            "trials_planned": sum(manifest.trials_planned for manifest in manifests),
            "outcome": None if None in ended else first.outcome,
            "search": [],
        }
    )


def _of_run(note: Message | str, run: str) -> Message | str:
    return f"{run}: {note}" if isinstance(note, str) else Message(note.id, "{run}: {note}", run=run, note=note)


def target_names(runs: Sequence[RunSource]) -> list[dict[str, str]]:
    """Return new names for each run's targets: `pg18` if only one run has it, otherwise `pg18 (quick-3f9a)`."""
    used = [
        dict.fromkeys([*(each.name for each in run.manifest.targets), *(t.target for t in run.trials)]) for run in runs
    ]
    counts: dict[str, int] = {}
    for names in used:
        for name in names:
            counts[name] = counts.get(name, 0) + 1
    short = [short_name(run.manifest.run) for run in runs]
    if len(set(short)) < len(short):
        short = [run.manifest.run for run in runs]
    return [
        {name: name if counts[name] == 1 else f"{name} ({short[at]})" for name in names}
        for at, names in enumerate(used)
    ]


def short_name(run: str) -> str:
    """Return a run's name without its time: `quick-3f9a` of `20261120T101500Z-quick-3f9a`."""
    time, dash, rest = run.partition("-")
    return rest if dash and time[:8].isdigit() else run


def left_out_of(of: Digest, findings: Sequence[Finding], late: Sequence[Finding] = ()) -> frozenset[int]:
    """Return the trials that a comparison of the arms leaves out, because `findings` are invalid, and those of `late`
    (`audit.latency_differences.overloaded`).

    Empty if `findings` leave an arm no trial: the comparison is then shown, and void.
    """
    invalid = frozenset(trials_of(of_single_trials(findings)[1]))
    arms = _arms(of, invalid)
    if not arms or any(each.is_empty for each in arms):
        return frozenset()
    return invalid | trials_of(late)


def comparisons_of(of: Digest, left_out: Collection[int] = ()) -> list[Comparison]:
    """Return every arm of one run compared with the first of them; empty if fewer than two have a result."""
    return [each for each in compare(_arms(of, left_out)) if each.points]


def with_confounders(comparisons: Sequence[Comparison], run: RunData) -> list[Comparison]:
    by = usual_split(run)
    if by is None:
        return list(comparisons)
    return [pairing_of_arms(run, by, each.base, each.other, each.metric).with_confounders(each) for each in comparisons]


def _arms(of: Digest, left_out: Collection[int]) -> list[Arms]:
    by = usual_split(of.run)
    if by is None:
        return []
    try:
        return within(of.run, by, usual_metric(of.run), removed=left_out)
    except UsageError:
        return []


def arms_of(of: Digest) -> dict[Series, str]:
    """Return the arm of each series of one run, as named in `comparisons_of`; empty without arms."""
    by = usual_split(of.run)
    if by is None:
        return {}
    values = {series: series.parameter(by) for series in of.named}
    return {series: "default" if value is None else text(value) for series, value in values.items()}


def arms_between(base: RunData, other: RunData, metric: Metric) -> Arms:
    """Return `analyse.pairs.between` with confounders. Raises UsageError.

    `pgdyno compare` refuses runs that measured different things; a page for both shows them, and names the reasons in
    the same place.
    """
    found = pairing_between(base, other, metric=metric)
    refused = [Confounder(topic_of(each.field), each.field, words_of(each)) for each in found.refused]
    refused += [Confounder(topic_of_pair(each), each.rule, each.translatable_message) for each in found.invalid]
    late = (trials_of(overload_findings(base, metric)), trials_of(overload_findings(other, metric)))
    found.confounders[:0] = refused
    return found.with_confounders(between(base, other, metric, late))
