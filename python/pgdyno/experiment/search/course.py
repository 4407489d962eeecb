"""The trials of a search, one after the other: each is planned when those before it are whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pgdyno.experiment.search.arms import Arm, arms_of
from pgdyno.experiment.state import RunState
from pgdyno.plan import PlannedTrial
from pgdyno.plan.trials import slug_of
from pgdyno.records import Point, SearchRecord, TrialRecord
from pgdyno.report.run_events import Noted


def search_trials(state: RunState) -> Iterator[PlannedTrial]:
    """The trials that are still to be made; behind the last one the manifest says what was found.

    Several searches take turns, so that what drifts over time meets them alike.
    """
    arms = arms_of(state.plan)
    while True:
        records = state.folder.trials()
        asked = [(arm, arm.ask(records)) for arm in arms]
        found = [each for _, each in asked if isinstance(each, SearchRecord)]
        if len(found) == len(arms):
            break
        open_arms = [(arm, point) for arm, point in asked if isinstance(point, Point)]
        arm, point = min(open_arms, key=lambda each: sum(map(each[0].has, records)))
        trial = _planned(arm, point, records, arms)
        state.add(trial)
        yield trial
    state.folder.update_manifest(search=found)
    for each in found:
        where = f"target {each.target}: " if len(arms) > 1 else ""
        state.view.event(Noted(f"{where}{each.words}"))


def trials_so_far(records: Sequence[TrialRecord]) -> list[PlannedTrial]:
    """The trials of a search that were made, as they were planned."""
    return [
        PlannedTrial(record.number, record.slug, record.target, record.point, record.repeat)
        for record in sorted(records, key=lambda record: record.number)
    ]


def _planned(arm: Arm, point: Point, records: Sequence[TrialRecord], arms: Sequence[Arm]) -> PlannedTrial:
    taken = {record.number for record in records}
    number = next(each for each in range(1, len(taken) + 2) if each not in taken)
    repeat = 1 + sum(arm.has(record) and record.point == point for record in records)
    points = [*(each.lowest for each in arms), *(each.highest for each in arms)]
    return PlannedTrial(number, slug_of(number, arm.target, point, points), arm.target, point, repeat)
