"""The noise grade of a run in words: the smallest difference that it can detect."""

from __future__ import annotations

from typing import Any

from pgdyno.analyse.comparison import FEWEST_PAIRS, Comparison
from pgdyno.analyse.noise_grade import NoiseGrade, grade_of_comparison, grade_of_repeats
from pgdyno.analyse.over_time.timeline import RunSource
from pgdyno.analyse.pairs import usual_metric, value_of
from pgdyno.report import numbers
from pgdyno.report.answers.comparison import percent
from pgdyno.report.digest import Digest
from pgdyno.report.translation import gettext, ngettext


def noise_grade(of: Digest, chief: Comparison | None) -> NoiseGrade | None:
    """Return the grade of the comparison in the answer; without one, that of the repeats. None without repeats."""
    found = grade_of_comparison(chief) if chief is not None else None
    return found or grade_of_repeats(figures_by_point(of))


def figures_by_point(of: Digest) -> list[list[float]]:
    """Return the figures of the finished trials of each point, by the metric that comparisons of the run use."""
    known = _figures(of.run)
    found = [[known[number] for number in point.finished if number in known] for point in of.points]
    # most points of a search for settings are proposals, which are measured once
    return [each for each in found if len(each) >= FEWEST_PAIRS] if of.manifest.finds_settings else found


def _figures(run: RunSource) -> dict[int, float]:
    metric = usual_metric(run)
    values = ((trial.number, value_of(trial, metric)) for trial in run.trials)
    return {number: value for number, value in values if value is not None}


def noise_about(grade: NoiseGrade | None) -> str:
    """Return the figure that the letter stands for."""
    if grade is None:
        return gettext("one trial per point does not show the noise")
    effect = percent(grade.detectable, plus=False)
    if grade.is_compared:
        pairs = ngettext("{count:,} pair", "{count:,} pairs", grade.repeats)
        return gettext("smallest detectable difference {effect}, {pairs}", effect=effect, pairs=pairs)
    return gettext(
        "smallest detectable difference {effect} between two such runs, {trials} per point",
        effect=effect,
        trials=numbers.trials(grade.repeats),
    )


def noise_line(grade: NoiseGrade | None) -> str:
    """Return the grade in a sentence."""
    if grade is None:
        return gettext("Noise grade unknown: {about}", about=noise_about(grade))
    return gettext("Noise grade {letter}: {about}", letter=grade.letter, about=noise_about(grade))


def noise_json(grade: NoiseGrade | None) -> dict[str, Any] | None:
    """Return the grade for programs; `docs/reference/analysis.md` describes the keys."""
    if grade is None:
        return None
    return {
        "grade": grade.letter,
        "detectable": grade.detectable,
        "repeats": grade.repeats,
        "compared": grade.is_compared,
    }
