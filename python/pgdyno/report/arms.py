"""The arms of one run and their comparison: the one that `pgdyno compare RUN` prints."""

from __future__ import annotations

from pgdyno.analyse.compare import Comparison, compare
from pgdyno.analyse.metric import usual_metric
from pgdyno.analyse.pairs import usual_split, within
from pgdyno.analyse.series import Series, text
from pgdyno.errors import UsageError
from pgdyno.report.digest import Digest


def comparisons_of(of: Digest) -> list[Comparison]:
    """Every arm of one run against the first of them; empty where fewer than two have a result."""
    by = usual_split(of.run)
    if by is None:
        return []
    try:
        found = compare(within(of.run, by, usual_metric(of.run)))
    except UsageError:
        return []
    return [each for each in found if each.points]


def arms_of(of: Digest) -> dict[Series, str]:
    """By series of one run, the arm that `comparisons_of` knows it as; empty without arms."""
    by = usual_split(of.run)
    if by is None:
        return {}
    values = {series: series.parameter(by) for series in of.named}
    return {series: "default" if value is None else text(value) for series, value in values.items()}
