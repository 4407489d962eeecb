"""The trials of a search: each is planned when those before it are complete."""

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module

from pgdyno.experiment.run_progress import RunProgress
from pgdyno.experiment.search.search_arm import Arm, arms_of
from pgdyno.experiment.servers import Servers
from pgdyno.plan import Plan, PlannedTrial
from pgdyno.plan.trials import slug_of
from pgdyno.records import Point, SearchRecord, TrialRecord
from pgdyno.store import RunFolder

_Trials = Callable[[Plan, RunFolder, RunProgress, Servers], Iterator[PlannedTrial]]


def search_trials(plan: Plan, folder: RunFolder, progress: RunProgress, servers: Servers) -> Iterator[PlannedTrial]:
    """Yield the trials that the search still needs; after the last one, write the result into the manifest.

    Several searches take turns, so that a drift over time affects all of them equally. Raises StoreError.
    """
    assert plan.search is not None
    if plan.search.kind.axis is None:
        module, _, name = plan.search.kind.arm.partition(":")
        trials: _Trials = getattr(import_module(module), name)
        yield from trials(plan, folder, progress, servers)
        return
    arms = arms_of(plan)
    while True:
        records = folder.trials()
        asked = [(arm, arm.ask(records)) for arm in arms]
        found = [each for _, each in asked if isinstance(each, SearchRecord)]
        if len(found) == len(arms):
            break
        open_arms = [(arm, point) for arm, point in asked if isinstance(point, Point)]
        arm, point = min(open_arms, key=lambda each: sum(map(each[0].has, records)))
        trial = _plan_trial(arm, point, records, arms)
        progress.add(trial)
        yield trial
    folder.update_manifest(search=found)
    for each in found:
        where = f"target {each.target}: " if len(arms) > 1 else ""
        progress.show(f"{where}{each.words}")


def trials_so_far(records: Sequence[TrialRecord]) -> list[PlannedTrial]:
    return [
        PlannedTrial(record.number, record.slug, record.target, record.point, record.repeat, instance=record.instance)
        for record in sorted(records, key=lambda record: record.number)
    ]


def _plan_trial(arm: Arm, point: Point, records: Sequence[TrialRecord], arms: Sequence[Arm]) -> PlannedTrial:
    taken = {record.number for record in records}
    number = next(each for each in range(1, len(taken) + 2) if each not in taken)
    repeat = 1 + sum(arm.has(record) and record.point == point for record in records)
    points = [*(each.lowest for each in arms), *(each.highest for each in arms)]
    return PlannedTrial(number, slug_of(number, arm.target, point, points), arm.target, point, repeat)
