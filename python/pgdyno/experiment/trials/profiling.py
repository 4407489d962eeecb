"""The profiles of a run: after its trials, perf samples one more short load of each arm.

These loads are no trials: perf costs something, and one load has no interval. Nothing compares or audits them.
"""

import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pgdyno.analyse.series import Series, dependent_parameters, label, varying_parameters
from pgdyno.errors import PgdynoError, StoreError
from pgdyno.experiment.limits.budget_left import BudgetLeft
from pgdyno.experiment.run_context import RunContext
from pgdyno.experiment.run_progress import RunProgress
from pgdyno.experiment.trials.counting import CountedLoad
from pgdyno.experiment.trials.trial_runner import TrialRunner
from pgdyno.instructions.callgrind import UNKNOWN
from pgdyno.messages import Message
from pgdyno.plan import Plan, PlannedTrial
from pgdyno.plan.targets import OwnTarget
from pgdyno.plan.trials import LONGEST_SLUG
from pgdyno.probe.perf import HZ, PerfError, read_stacks, record_samples
from pgdyno.records import Outcome, ProfileRecord, TrialRecord
from pgdyno.report.terminal.progress import QuietView
from pgdyno.run.run_trial import TrialResult
from pgdyno.store import RunFolder
from pgdyno.store.profiles import keep_profile
from pgdyno.targets import Server
from pgdyno.targets.cluster.processes import servers_in
from pgdyno.units import quantity

PROFILED_S = 10.0
"""The length of the load, after the plan's warm-up."""


@dataclass(frozen=True, slots=True)
class Arm:
    """What a profile is of: a target with its settings, at the point with the highest throughput."""

    trial: TrialRecord
    """One at that point."""
    tps: float
    """The median of the trials there."""
    name: str
    """What distinguishes it from the other arms: `pg18`, `work_mem 4MB`."""


def arms_to_profile(plan: Plan, folder: RunFolder) -> list[Arm]:
    """Return the arms of which the run should have a profile and has none. Raises StoreError."""
    if not (plan.probe.enabled and plan.probe.profile):
        return []
    trials = [
        trial
        for trial in folder.trials()
        if trial.outcome is Outcome.FINISHED and trial.summary and isinstance(plan.target[trial.target], OwnTarget)
    ]
    follow = dependent_parameters(plan.as_resolved(), (trial.point for trial in trials))
    if plan.search is not None:
        # what a search varies makes no arms: the rate, or settings
        axis = plan.search.kind.axis
        varied = {f"settings.{name}" for trial in trials for name in trial.point.settings}
        follow |= {axis} if axis is not None else varied
    points: dict[Series, dict[str, list[TrialRecord]]] = {}
    for trial in trials:
        of_arm = points.setdefault(Series.from_point(trial.target, trial.point, follow), {})
        of_arm.setdefault(trial.point.model_dump_json(), []).append(trial)
    profiled = {Series.from_point(each.target, each.point, follow) for each in folder.manifest.profiles}
    names = varying_parameters(list(points))
    found = []
    for series, of_arm in points.items():
        if series not in profiled:
            tps = [statistics.median(each.summary.tps for each in at if each.summary) for at in of_arm.values()]
            best = tps.index(max(tps))
            found.append(Arm(list(of_arm.values())[best][0], tps[best], label(series, names)))
    return found


class Profiles:
    def __init__(
        self,
        context: RunContext,
        progress: RunProgress,
        left: BudgetLeft | None,
        runner: Callable[[RunContext, RunProgress], TrialRunner],
    ) -> None:
        """`runner` makes what runs loads, of another plan and shown elsewhere; `left` is what is left of a budget."""
        self._context = context
        self._progress = progress
        self._left = left
        short = replace(context, loaded=replace(context.loaded, plan=_shorten_plan(context.plan)))
        # the live view and the run's journal show trials only
        hidden = RunProgress(short.plan, context.folder, QuietView(), progress.trials)
        self._runner = runner(short, hidden)

    def take(self) -> None:
        """Profile every arm that has no profile; a note says what cannot be profiled, and why. Raises StoreError."""
        plan, folder = self._context.plan, self._context.folder
        if not (plan.probe.enabled and plan.probe.profile):
            return
        for name, spec in plan.target.items():
            if not isinstance(spec, OwnTarget):
                why = Message("profile-elsewhere", "perf samples only servers that pgdyno starts on this machine")
                self._note([name], why)
        arms = arms_to_profile(plan, folder)
        left_out: dict[str, list[str]] = {}
        for at, arm in enumerate(arms):
            if self._left is not None and not self._left.has_room():
                no_time = Message("profile-no-time", "the budget has no time left for it")
                self._note([each.name for each in arms[at:]], no_time)
                break
            try:
                profile = self._profile(arm)
            except StoreError:
                raise
            except PgdynoError as error:
                hint = f"; {error.hint}" if error.hint else ""
                left_out.setdefault(f"{error.message}{hint}", []).append(arm.name)
                continue
            folder.update_manifest(profiles=[*folder.manifest.profiles, profile])
        for reason, names in left_out.items():
            self._note(names, reason)

    def _note(self, names: Sequence[str], why: Message | str) -> None:
        of = "; ".join(names)
        self._progress.note_once(Message("profile-left-out", "no profile of {target}: {why}", target=of, why=why))

    def _profile(self, arm: Arm) -> ProfileRecord:
        """Run the load of `arm` under perf, and store its stacks. Raises PgdynoError."""
        trial = arm.trial
        name, clients = trial.slug, quantity(trial.point.planned_clients, "client")
        self._progress.set_up(f"profiling {trial.target}, {clients}")
        slug = f"profile-{name}"[:LONGEST_SLUG]
        planned = PlannedTrial(trial.number, slug, trial.target, trial.point, trial.repeat, instance=trial.instance)
        if self._context.plan.trial.measure == "instructions":
            return self._counted_stacks(arm, planned)

        def under_perf(server: Server, folder: Path, load: Callable[[], TrialResult]) -> ProfileRecord:
            data, log = folder / "perf.data", folder / "perf.log"
            with record_samples([each.pid for each in servers_in(server.data_directory)], data, log):
                result = load()
                ended_s = time.monotonic()
            if result.summary is None or result.outcome is not Outcome.FINISHED:
                why = result.failure.message if result.failure is not None else "it was interrupted"
                raise PerfError(f"its load failed: {why}")
            self._progress.set_up(f"reading the profile of {trial.target}")
            stacks = read_stacks(data, ended_s - PROFILED_S, ended_s, log)
            return ProfileRecord(
                target=trial.target,
                point=trial.point,
                file=keep_profile(self._context.folder.path, name, stacks.samples),
                event=stacks.event,
                hz=HZ,
                samples=stacks.samples.total(),
                unresolved=stacks.unresolved,
                tps=result.summary.tps,
                tps_median=arm.tps,
            )

        return self._runner.run_unstored(planned, under_perf)

    def _counted_stacks(self, arm: Arm, planned: PlannedTrial) -> ProfileRecord:
        def count(server: Server, folder: Path, _load: Callable[[], TrialResult]) -> Mapping[str, int]:
            return CountedLoad(self._context, planned, server, folder / "engine.log").stacks()

        stacks = Counter(self._runner.run_unstored(planned, count))
        return ProfileRecord(
            target=arm.trial.target,
            point=arm.trial.point,
            file=keep_profile(self._context.folder.path, arm.trial.slug, stacks),
            event=ProfileRecord.INSTRUCTIONS,
            hz=0,
            samples=stacks.total(),
            unresolved=sum(count for stack, count in stacks.items() if stack.endswith(UNKNOWN)),
            tps=0.0,
            tps_median=0.0,
        )


def _shorten_plan(plan: Plan) -> Plan:
    """Return `plan` with a short load, and nothing that happens before or meanwhile."""
    trial = plan.trial.model_copy(update={"duration": PROFILED_S, "transactions": None, "ledger": False})
    probe = plan.probe.model_copy(update={"plans": False})
    return plan.model_copy(update={"trial": trial, "event": [], "probe": probe})
