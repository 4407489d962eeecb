"""The noise grade of a run in words: the smallest difference that it can detect."""

from typing import Any

from pgdyno.analyse.comparison import Comparison
from pgdyno.analyse.noise_grade import (
    Figure,
    NoiseGrade,
    figures_by_point,
    grade_against_none,
    grade_of_comparison,
    grade_of_points,
)
from pgdyno.records.base import FEWEST_PAIRS
from pgdyno.report import numbers
from pgdyno.report.answers.comparison import percent
from pgdyno.report.report_content import Digest
from pgdyno.report.translation import gettext, ngettext


def noise_grade(of: Digest, chief: Comparison | None) -> NoiseGrade | None:
    """Return the grade of the comparison in the answer; without one, that of the repeats. None without repeats."""
    found = grade_of_comparison(chief) if chief is not None else None
    return found or grade_of_points(_figures(of))


def _figures(of: Digest) -> list[list[Figure]]:
    finished = {number for point in of.points for number in point.finished}
    found = figures_by_point(of.run, (trial for trial in of.run.trials if trial.number in finished))
    # most points of a search for settings are proposals, which are measured once
    return [each for each in found if len(each) >= FEWEST_PAIRS] if of.manifest.finds_settings else found


def noise_about(grade: NoiseGrade | None) -> str:
    """Return the figure that the letter stands for."""
    if grade is None:
        return gettext("one trial per point does not show the noise")
    effect = percent(grade.detectable, plus=False)
    if grade.is_compared:
        pairs = ngettext("{count:,} pair", "{count:,} pairs", grade.repeats)
        if grade.instances > 1:
            pairs = gettext("{pairs} on {count} instances", pairs=pairs, count=grade.instances)
        return gettext("smallest detectable difference {effect}, {pairs}", effect=effect, pairs=pairs)
    trials = numbers.trials(grade.repeats)
    if grade.instances > 1:
        trials = gettext("{trials} on {count} instances", trials=trials, count=grade.instances)
    return gettext(
        "smallest detectable difference {effect} between two such runs, {trials} per point",
        effect=effect,
        trials=trials,
    )


def noise_line(grade: NoiseGrade | None) -> str:
    if grade is None:
        return gettext("Noise grade unknown: {about}", about=noise_about(grade))
    return gettext("Noise grade {letter}: {about}", letter=grade.letter, about=noise_about(grade))


def gate_noise(of: Comparison) -> list[str]:
    """Return the line about the grade of a gate; none with fewer pairs than a claim needs, which its notes say."""
    grade = grade_against_none(of)
    return [] if grade is None else [noise_line(grade)]


def noise_json(grade: NoiseGrade | None) -> dict[str, Any] | None:
    """Return the grade for programs; None if it is unknown."""
    return None if grade is None else grade_json(grade)


def grade_json(grade: NoiseGrade) -> dict[str, Any]:
    """Return the grade for programs; `docs/reference/analysis.md` describes the keys."""
    return {
        "grade": grade.letter,
        "detectable": grade.detectable,
        "repeats": grade.repeats,
        "instances": grade.instances,
        "compared": grade.is_compared,
    }
