"""What a transaction costs in instructions, by statement and by function, in each arm of a run that counted them."""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from pgdyno.analyse.intervals import CONFIDENCE, Interval, paired_interval
from pgdyno.analyse.over_time.timeline import RunSource
from pgdyno.analyse.pairs import arm_name, by_arm, usual_split
from pgdyno.records import InstructionCounts, Outcome
from pgdyno.report.answers.comparison import low_to_high, percent
from pgdyno.report.numbers import NOTHING
from pgdyno.report.table import Table
from pgdyno.report.translation import gettext, ngettext

MOST_FUNCTIONS = 12
LEAST_CHANGE = 1e-4
"""Of a transaction: smaller changes of a function are not shown."""
_TEXT = 72
"""Displayed characters of a statement."""


@dataclass(frozen=True, slots=True)
class CountedArm:
    name: str
    counts: dict[int, InstructionCounts]
    """By repeat."""

    @property
    def instructions(self) -> float:
        """Mean of a transaction over the repeats."""
        return statistics.fmean(each.instructions for each in self.counts.values())

    @property
    def spread(self) -> float:
        """Largest relative difference between two repeats."""
        figures = [each.instructions for each in self.counts.values()]
        return max(figures) / min(figures) - 1 if min(figures) > 0 else 0.0

    def functions(self) -> dict[str, float]:
        """Return the mean of each function itself over the repeats."""
        found: dict[str, float] = {}
        for each in self.counts.values():
            for name, count in each.functions.items():
                found[name] = found.get(name, 0.0) + count / len(self.counts)
        return found


@dataclass(frozen=True, slots=True)
class Cost:
    """A row: a transaction, or one statement."""

    name: str
    base: float
    other: float | None
    """None without another arm."""
    interval: Interval | None
    """Of log(other / base)."""


def counted_arms(run: RunSource) -> list[CountedArm]:
    """Return the arms of `run` that have counts, the baseline first."""
    by = usual_split(run)
    name = None if by is None else arm_name(run.manifest, run.trials, by)
    arms = {each: CountedArm(each, {}) for each in ([""] if by is None else by_arm(run.manifest, run.trials, by))}
    for trial in run.trials:
        counts = None if trial.summary is None else trial.summary.instructions
        if trial.outcome is Outcome.FINISHED and counts is not None:
            arms["" if name is None else name(trial)].counts[trial.repeat] = counts
    setting = by.removeprefix("settings.") if by is not None and by.startswith("settings.") else ""
    return [replace(each, name=f"{setting} {each.name}".strip()) for each in arms.values() if each.counts]


def costs(base: CountedArm, other: CountedArm | None) -> list[Cost]:
    """Return what a transaction costs, then each script of several, then each statement."""
    found = [_cost(gettext("a transaction"), base, other, lambda counts: counts.instructions)]
    scripts = next(iter(base.counts.values())).scripts
    for at, script in enumerate(scripts):
        if len(scripts) > 1:
            found.append(_cost(script.name, base, other, partial(_of_script, at)))
        for place, statement in enumerate(script.statements):
            text = " ".join(statement.text.split())
            shown = text if len(text) <= _TEXT else f"{text[: _TEXT - 1]}…"
            found.append(_cost(shown, base, other, partial(_of_statement, at, place)))
    return found


def _of_script(script: int, counts: InstructionCounts) -> float:
    return counts.scripts[script].instructions


def _of_statement(script: int, place: int, counts: InstructionCounts) -> float:
    statements = counts.scripts[script].statements
    return statements[place].instructions if place < len(statements) else 0.0


def _cost(name: str, base: CountedArm, other: CountedArm | None, of: Callable[[InstructionCounts], float]) -> Cost:
    before = {repeat: of(counts) for repeat, counts in base.counts.items()}
    if other is None:
        return Cost(name, statistics.fmean(before.values()), None, None)
    after = {repeat: of(counts) for repeat, counts in other.counts.items()}
    ratios = [
        math.log(after[each] / before[each]) for each in before.keys() & after.keys() if before[each] and after[each]
    ]
    interval = paired_interval(ratios, CONFIDENCE)
    return Cost(name, statistics.fmean(before.values()), statistics.fmean(after.values()), interval)


def cost_table(base: CountedArm, other: CountedArm | None) -> Table:
    rows = costs(base, other)
    caption = gettext("Instructions by statement, mean of a transaction")
    first = gettext("statement")
    if other is None:
        figures = tuple((each.name, _rounded(each.base)) for each in rows)
        return Table(caption, (first, gettext("instructions")), figures)
    headings = (first, base.name, other.name, gettext("change"), gettext("95 % interval"))
    return Table(
        caption,
        headings,
        tuple(
            (
                each.name,
                _rounded(each.base),
                _rounded(each.other or 0.0),
                percent(each.other / each.base - 1) if each.other is not None and each.base else NOTHING,
                low_to_high(each.interval) if each.interval is not None else NOTHING,
            )
            for each in rows
        ),
    )


def function_table(base: CountedArm, other: CountedArm | None) -> Table | None:
    """Return the functions that changed most, or of one arm those with the most; None if none are known."""
    before = base.functions()
    if other is None:
        rows = sorted(before.items(), key=lambda each: -each[1])[:MOST_FUNCTIONS]
        caption = gettext("Functions with the most instructions of a transaction, without what they call")
        figures = tuple((name, _rounded(count)) for name, count in rows)
        return Table(caption, (gettext("function"), gettext("instructions")), figures) if rows else None
    after, least = other.functions(), LEAST_CHANGE * base.instructions
    changes = {name: after.get(name, 0.0) - before.get(name, 0.0) for name in {**before, **after}}
    names = sorted((each for each in changes if abs(changes[each]) >= least), key=lambda each: -abs(changes[each]))
    if not names:
        return None
    caption = gettext("Functions that changed: instructions of a transaction, without what they call")
    headings = (gettext("function"), base.name, other.name, gettext("difference"), gettext("of a transaction, %"))
    return Table(
        caption,
        headings,
        tuple(
            (
                name,
                _rounded(before.get(name, 0.0)),
                _rounded(after.get(name, 0.0)),
                f"{changes[name]:+,.0f}",
                f"{100 * changes[name] / base.instructions:+.2f}",
            )
            for name in names[:MOST_FUNCTIONS]
        ),
    )


def count_lines(arms: Sequence[CountedArm]) -> list[str]:
    """Return what the counts include, and under which conditions, in sentences."""
    first = [next(iter(each.counts.values())) for each in arms]
    lines = [
        gettext(
            "Instructions are those of user space in one server process: no waits, I/O, kernel, cache misses or "
            "contention"
        )
    ]
    number = first[0].transactions
    lines.append(
        ngettext(
            "{counter} counted {count:,} transaction of each script, after others that warm its session up",
            "{counter} counted {count:,} transactions of each script, after others that warm its session up",
            number,
            counter=first[0].counter,
        )
    )
    jit = [each.jit for each in first]
    if len(set(jit)) > 1:
        on = ", ".join(arm.name for arm, is_on in zip(arms, jit, strict=True) if is_on)
        lines.append(gettext("JIT was on for {arms} alone", arms=on))
    else:
        lines.append(gettext("JIT was on") if jit[0] else gettext("JIT was off"))
    if any(not script.statements for each in first for script in each.scripts):
        lines.append(gettext("Statements are not told apart where transactions differ in them, and with perf"))
    if first[0].counter != "perf" and not any(len(each.functions) > MOST_FUNCTIONS for each in first):
        lines.append(gettext("Most functions have no name: install the debug symbols of the server"))
    return lines


def _rounded(count: float) -> str:
    return f"{count:,.0f}"
