"""The configuration file of a search for settings: each line with the difference that justifies it."""

from __future__ import annotations

from pgdyno.analyse.comparison import PointComparison, Verdict
from pgdyno.analyse.pairs import Metric
from pgdyno.experiment.search.settings.stages import Found, Line
from pgdyno.report.answers.comparison import low_to_high, percent
from pgdyno.targets.cluster.settings import quote
from pgdyno.terminal import visible

FILE = "postgresql.conf"
"""Its name in the run folder."""


def configuration(found: Found, metric: Metric, run: str, words: str) -> str:
    """Return the lines that differ from the starting configuration, with comments; `words` is the result."""
    lines = [f"# pgdyno, run {run}", f"# {visible(words)}"]
    if not found.settings:
        return "\n".join([*lines, "# no line: nothing was shown to be better than the starting configuration"]) + "\n"
    tested = {line.name: line for line in found.lines}
    for name, value in found.settings.items():
        why = _alone(found, metric) if len(found.settings) == 1 else _why(tested.get(name), metric)
        lines += ["", f"# {why}", f"{name} = {quote(value)}"]
    return "\n".join(lines) + "\n"


def _alone(found: Found, metric: Metric) -> str:
    assert found.confirmed is not None
    return f"with this line: {_change(found.confirmed, metric)}"


def _why(line: Line | None, metric: Metric) -> str:
    without = line.without if line is not None else None
    if without is None or without.interval is None:
        return "not tested alone: the budget was used up"
    change = _change(without, metric)
    if without.verdict is Verdict.SLOWER:
        return f"without this line: {change}"
    if line is not None and line.is_kept:
        return f"without this line, a promise was broken; {change}"
    return f"no difference shown alone ({change}), but the file without such lines was not confirmed"


def _change(of: PointComparison, metric: Metric) -> str:
    assert of.interval is not None
    return f"{percent(of.change)} {metric.words}, 95 % interval {low_to_high(of.interval)}"
