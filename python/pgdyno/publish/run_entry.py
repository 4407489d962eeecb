"""What the index shows and ranks of a run, from its records and the head of its report: no table is read."""

import hashlib
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from pgdyno.analyse.history import length_words, load_words, told_of
from pgdyno.analyse.pairs import Metric, is_duet, key_without, usual_metric, usual_split, value_of
from pgdyno.analyse.queries.by_query import by_query
from pgdyno.errors import StoreError
from pgdyno.fingerprint import fingerprint_of
from pgdyno.records import Fingerprint, Manifest, Outcome, TargetRecord, TrialRecord
from pgdyno.records.base import Instant, Record
from pgdyno.registry import kinds_that_are
from pgdyno.report.sentences import question
from pgdyno.store import RunData, RunFolder, load_run
from pgdyno.store.find_runs import ReportHead, read_report_head
from pgdyno.units import format_size, quantity


class Entry(Record):
    name: str
    """Of its page: in a published folder by content, in a server of runs the folder's name."""
    run: str = ""
    question: str = ""
    answer: str = ""
    """Empty without a report, as are `validity` and `noise`."""
    validity: str = ""
    noise: str = ""
    """The letter of the noise grade."""
    plan: str = ""
    workload: str = ""
    load: str = ""
    """The workload with its clients and length of trials, in words."""
    machine: str = ""
    versions: tuple[str, ...] = ()
    """As the servers reported them; empty before they have started."""
    settings: dict[str, str] = {}
    """Those that the plan asks of its only target; of a server that was there before, all that it changed."""
    started_at: Instant | None = None
    """For an imported run, the time of the import; None for one that cannot be read."""
    outcome: Outcome | None = None
    ended: bool = False
    trials: int = 0
    planned: int = 0
    fingerprint: str = ""
    print: Fingerprint | None = None
    metric: Metric = Metric.TPS
    points: str = ""
    """Equal for runs that measured the same points with the same load."""
    measured: int = 0
    """The number of these points."""
    logs: tuple[float, ...] = ()
    """Logarithms of the figures that decide, one per repeat, or per instance of the target."""
    by_instance: bool = False
    alone: str = ""
    """Why no other run can be ranked with it, if its own records say so."""
    problem: str = ""
    """Why it cannot be read."""

    @property
    def is_not_valid(self) -> bool:
        return self.validity == "not valid"


def read_entry(run: Path) -> Entry:
    """Return the entry of the run folder `run`; of an unreadable one, the reason."""
    try:
        return entry_of(run.name, load_run(RunFolder.open(run)), read_report_head(run))
    except StoreError as error:
        return Entry(name=run.name, problem=error.message)


def entry_of(name: str, run: RunData, head: ReportHead) -> Entry:
    manifest, metric = run.manifest, usual_metric(run)
    host, targets = manifest.host, manifest.targets
    facts = [each.facts for each in targets if each.facts is not None]
    points, measured, logs, by_instance = _figures(run, metric)
    return Entry(
        name=name,
        run=manifest.run,
        question=question(manifest),
        answer=head.answer,
        validity=head.validity,
        noise=head.noise,
        plan=str(manifest.plan.get("name") or ""),
        workload=manifest.workload,
        load=_load(manifest, run.trials),
        machine=f"{host.cpu_model}, {quantity(host.cores, 'core')}, {format_size(host.memory_bytes)}" if host else "",
        versions=tuple(dict.fromkeys(each.version for each in facts)),
        settings=_settings(targets[0]) if len(targets) == 1 else {},
        started_at=manifest.started_at,
        outcome=manifest.outcome,
        ended=manifest.ended_at is not None,
        trials=len(run.trials),
        planned=manifest.trials_planned,
        fingerprint=fingerprint_of(manifest.fingerprint),
        print=manifest.fingerprint,
        metric=metric,
        points=points,
        measured=measured,
        logs=tuple(logs),
        by_instance=by_instance,
        alone=_alone(run, logs, head),
    )


def _settings(target: TargetRecord) -> dict[str, str]:
    if target.kind in kinds_that_are("elsewhere"):
        return target.facts.settings_changed if target.facts is not None else {}
    asked = target.asked.get("settings")
    return {name: str(value) for name, value in asked.items()} if isinstance(asked, Mapping) else {}


def _load(manifest: Manifest, trials: Sequence[TrialRecord]) -> str:
    clients = sorted({each.point.clients for each in trials if each.point.clients})
    shown = " and ".join(map(str, clients)) if len(clients) <= 2 else f"{clients[0]} to {clients[-1]}"
    told = f", {shown} {'client' if clients == [1] else 'clients'}" if clients else ""
    return f"{manifest.workload}{load_words(manifest)}{told}{length_words(trials[0]) if trials else ''}"


def _alone(run: RunData, logs: list[float], head: ReportHead) -> str:
    manifest = run.manifest
    if head.validity == "not valid":
        return "its audit says that the answer is not valid"
    if manifest.search or manifest.plan.get("search"):
        return "a search: earlier results chose its points"
    if is_duet(run.trials):
        return "a duet: its figures mean nothing without each other"
    if any(each.point.group or each.point.step for each in run.trials):
        return "groups of clients ran next to each other"
    split = usual_split(run)
    if split is not None:
        return f"it compares its own arms, by {split}"
    if not logs:
        return "no repeat finished at every point"
    return "" if manifest.fingerprint is not None else "it has no fingerprint of its machine"


def _figures(run: RunData, metric: Metric) -> tuple[str, int, list[float], bool]:
    """Return what its points have in common with those of a comparable run, and the logarithms of its figures: of each
    repeat that has all points, the mean over these, as `analyse.comparison` compares runs.
    """
    key = key_without("target")
    found: dict[object, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    loads, instances = set(), {}
    for trial in by_query(run.trials):
        point = key(trial)
        workers = trial.generator.workers if trial.generator is not None and not trial.generator.hosts else None
        told = load_words(run.manifest), told_of(trial), length_words(trial), trial.warmup_s, workers
        loads.add(repr((*told, point)))
        instances[trial.repeat] = trial.instance
        figure = value_of(trial, metric)
        found[point]
        if figure is not None:
            found[point][trial.repeat].append(math.log(figure))
    plan = run.manifest.plan
    alike = (metric.value, run.manifest.workload, sorted(loads), plan.get("phase"), plan.get("event"))
    whole = set.intersection(*(set(repeats) for repeats in found.values())) if found else set()
    means = {repeat: math.fsum(_mean(of[repeat]) for of in found.values()) / len(found) for repeat in sorted(whole)}
    by_instance: dict[int | None, list[float]] = defaultdict(list)
    for repeat, mean in means.items():
        by_instance[instances[repeat]].append(mean)
    several = len(by_instance) > 1
    logs = [*map(_mean, by_instance.values())] if several else list(means.values())
    return hashlib.sha256(repr(alike).encode()).hexdigest()[:16], len(found), logs, several


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)
