"""The arms of one run and their comparison, as in `pgdyno compare RUN`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from pgdyno.analyse.compare import Comparison, compare
from pgdyno.analyse.metric import usual_metric
from pgdyno.analyse.pairs import Arms, usual_split, within
from pgdyno.analyse.series import Series, text
from pgdyno.audit import Finding
from pgdyno.audit.pairing import of_single_trials, pairing_of_arms, trials_of
from pgdyno.errors import UsageError
from pgdyno.report.digest import Digest
from pgdyno.store import RunData


def left_out_of(of: Digest, findings: Sequence[Finding]) -> frozenset[int]:
    """Return the trials that a comparison of the arms leaves out, because `findings` are invalid.

    Empty if an arm would have none left: the comparison is then shown, and void.
    """
    invalid = frozenset(trials_of(of_single_trials(findings)[1]))
    arms = _arms(of, invalid)
    return frozenset() if not arms or any(each.is_empty for each in arms) else invalid


def comparisons_of(of: Digest, left_out: Collection[int] = ()) -> list[Comparison]:
    """Return every arm of one run compared with the first of them; empty if fewer than two have a result."""
    return [each for each in compare(_arms(of, left_out)) if each.points]


def with_confounders(comparisons: Sequence[Comparison], run: RunData) -> list[Comparison]:
    """Return the comparisons of the arms of `run`, each with its confounders."""
    by = usual_split(run)
    if by is None:
        return list(comparisons)
    return [
        replace(each, confounders=tuple(pairing_of_arms(run, by, each.base, each.other).confounders))
        for each in comparisons
    ]


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
