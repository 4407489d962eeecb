"""Groups the trials of a comparison into arms: by target, swept settings or protocol."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from pgdyno.audit.subject import Sample, Subject
from pgdyno.records import TrialRecord

Arms = Mapping[str, Sequence[Sample]]
"""Finished trials by the name of their arm."""


def arms_of(trials: Sequence[TrialRecord]) -> dict[int, str]:
    """Return the arm of each trial by its number, as messages name it: `pg18`, or `pg18, work_mem=8MB`."""
    protocols = {trial.point.protocol for trial in trials}
    return {
        trial.number: ", ".join(
            [
                trial.target,
                *(f"{name}={value}" for name, value in trial.point.settings.items()),
                *([trial.point.protocol] if len(protocols) > 1 else []),
            ]
        )
        for trial in trials
    }


def point_of(trial: TrialRecord) -> str:
    """Return the point of `trial` without the parameters that define its arm."""
    return trial.point.model_copy(update={"settings": {}, "protocol": ""}).model_dump_json()


def compared_arms(subject: Subject) -> Arms:
    """Return arms with their trials at the points that at least two arms share; empty if nothing can be compared."""
    names = arms_of(subject.run.trials)
    by_point: dict[str, dict[str, list[Sample]]] = defaultdict(lambda: defaultdict(list))
    for sample in subject.samples:
        by_point[point_of(sample.trial)][names[sample.number]].append(sample)
    arms: dict[str, list[Sample]] = defaultdict(list)
    for by_arm in by_point.values():
        for name, samples in by_arm.items() if len(by_arm) > 1 else ():
            arms[name] += samples
    return arms
