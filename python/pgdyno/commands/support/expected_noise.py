"""The noise grade that a plan can expect, from the last run of its workload on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgdyno.errors import PgdynoError
from pgdyno.host import describe_host
from pgdyno.plan import Plan
from pgdyno.plan.checks.question import compares_arms
from pgdyno.plan.workload import trial_s
from pgdyno.records import Host, Manifest
from pgdyno.store import RunFolder, newest_first
from pgdyno.units import duration_words, quantity

if TYPE_CHECKING:
    from pgdyno.analyse.noise_grade import NoiseGrade

MOST_RUNS = 50
"""Runs that are looked at, the newest first."""


@dataclass(frozen=True, slots=True)
class ExpectedNoise:
    """The grade that a plan can expect."""

    grade: NoiseGrade
    run: str
    trial_s: float | None
    """The measured seconds of its trials; None without a time limit."""


def expected_noise(plan: Plan, runs: Path) -> ExpectedNoise | None:
    """Return the grade that the noise of the last such run in `runs` gives the repeats of `plan`; None without one.

    Such a run has the same scripts, the same kinds of targets and the same machine; for several instances of each
    target, it has several, too.
    """
    here = describe_host()
    repeats = plan.trial.fewest_repeats, plan.trial.most_repeats
    compares = compares_arms(plan, plan.points())
    instances = _instances(plan)
    for path in islice(newest_first(runs), MOST_RUNS):
        try:
            folder = RunFolder.open(path)
            if not _is_like(folder.manifest, plan, here):
                continue
            # numpy and DuckDB: a first plan is checked without them
            from pgdyno.analyse.noise_grade import grade_like
            from pgdyno.store import load_run

            grade = grade_like(load_run(folder), repeats, compares=compares, instances=instances)
        except PgdynoError:
            continue
        if grade is not None:
            return ExpectedNoise(grade, folder.name, folder.manifest.plan["trial"].get("duration"))
    return None


def _instances(plan: Plan) -> int:
    return min(spec.instance_count for spec in plan.target.values())


def _is_like(manifest: Manifest, plan: Plan, here: Host) -> bool:
    kinds = {each.kind for each in manifest.targets}
    return (
        manifest.host is not None
        and _machine(manifest.host) == _machine(here)
        and manifest.workload == ", ".join(plan.workload.scripts)
        and kinds == {spec.kind for spec in plan.target.values()}
        and isinstance(manifest.plan.get("trial"), dict)
    )


def _machine(host: Host) -> tuple[object, ...]:
    return host.cpu_model, host.cores, host.memory_bytes, host.architecture


def expected_noise_line(plan: Plan, runs: Path, found: ExpectedNoise | None) -> str:
    """Return the grade, or the reason why it is unknown, as a sentence."""
    if found is None:
        workload = ", ".join(plan.workload.scripts)
        with_what = "several instances" if _instances(plan) > 1 else "repeats"
        return f"expected noise grade unknown: {runs} has no run of {workload} on this machine with {with_what} yet"
    from pgdyno.report.answers.comparison import percent

    grade = found.grade
    count = quantity(grade.repeats, "pair" if grade.is_compared else "trial")
    if grade.instances > 1:
        count += f" on {grade.instances} instances"
    if not grade.is_compared:
        count += " per point, between two such runs"
    effect = percent(grade.detectable, plus=False)
    line = f"expected noise grade {grade.letter}: smallest detectable difference {effect} with {count}, as noisy as "
    line += f"run {found.run}"
    seconds = plan.trial.duration
    if found.trial_s is not None and seconds is not None and found.trial_s != seconds and trial_s(plan) is not None:
        line += f", whose trials took {duration_words(found.trial_s)} instead of {duration_words(seconds)}"
    return line


def expected_noise_json(found: ExpectedNoise | None) -> dict[str, Any] | None:
    """Return the grade for programs; None if it is unknown."""
    if found is None:
        return None
    from pgdyno.report.answers.noise import grade_json

    return {**grade_json(found.grade), "run": found.run, "trial_s": found.trial_s}
