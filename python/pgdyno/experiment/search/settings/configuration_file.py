"""The configuration file of a search for settings: each line with the difference that justifies it."""

from __future__ import annotations

from pgdyno.analyse.comparison import PointComparison, Verdict
from pgdyno.experiment.search.settings.settings_result import Goal
from pgdyno.experiment.search.settings.stages import Found, Line
from pgdyno.report.answers.comparison import low_to_high, percent
from pgdyno.safe_output import visible
from pgdyno.targets.cluster.settings import quote

FILE = "postgresql.conf"
"""Name of the file in the run folder."""


def configuration(found: Found, goal: Goal, run: str, words: str) -> str:
    """Return the lines that differ from the starting configuration, with comments; `words` is the result."""
    lines = [f"# pgdyno, run {run}", f"# {visible(words)}"]
    if not found.settings:
        return "\n".join([*lines, "# no line: nothing was shown to be better than the starting configuration"]) + "\n"
    tested = {line.name: line for line in found.lines}
    for name, value in found.settings.items():
        why = _alone(found, goal) if len(found.settings) == 1 else _why(tested.get(name), goal)
        lines += ["", f"# {why}", f"{name} = {quote(value)}"]
    return "\n".join(lines) + "\n"


def _alone(found: Found, goal: Goal) -> str:
    assert found.confirmed is not None
    return f"with this line: {_change(found.confirmed, goal)}"


def _why(line: Line | None, goal: Goal) -> str:
    without = line.without if line is not None else None
    if line is not None and line.is_broken:
        return "without this line, a trial failed or broke a promise"
    if without is None or without.interval is None:
        return "not tested alone: the budget was used up"
    change = _change(without, goal)
    if without.verdict is Verdict.SLOWER:
        return f"without this line: {change}"
    return f"no difference shown alone ({change}), but the file without such lines was not confirmed"


def _change(of: PointComparison, goal: Goal) -> str:
    changed = goal.change(of)
    assert changed is not None
    return f"{percent(changed[0])} {goal.words}, 95 % interval {low_to_high(changed[1])}"
