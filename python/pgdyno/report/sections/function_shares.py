"""Profiles of the arms: in which functions the server spends its CPU time, and which differ most between two arms."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from pgdyno.records.manifest import ProfileRecord
from pgdyno.report import numbers
from pgdyno.report.answers.comparison import percent
from pgdyno.report.charts.flame_graph import flame_figure
from pgdyno.report.report_content import ArmProfile
from pgdyno.report.sections.section_blocks import Block, Folded
from pgdyno.report.table import Table
from pgdyno.report.translation import gettext

MOST_FUNCTIONS = 10
MOST_PROFILES = 6
MOSTLY = 0.5
"""The share of samples without a symbol from which the report says what to do."""
_Z = 1.96


def self_shares(of: ArmProfile) -> dict[str, float]:
    """Return the share of the samples in each function itself, without those that it called."""
    total = sum(of.stacks.values())
    counts: Counter[str] = Counter()
    for stack, count in of.stacks.items():
        counts[stack.rpartition(";")[2]] += count
    return {name: count / total for name, count in counts.items()}


def baseline_of(profiles: Sequence[ArmProfile], at: int) -> ArmProfile | None:
    """Return the profile that the one at index `at` is compared with: the first target's at the same point except for
    its clients, otherwise the first; None for the first.
    """
    of = profiles[at].record
    point = of.point.model_copy(update={"clients": 0})
    for each in profiles[:at]:
        is_alike = each.record.point.model_copy(update={"clients": 0}) == point
        if is_alike and each.name != profiles[at].name:
            return each
    return profiles[0] if at else None


def function_table(of: ArmProfile, base: ArmProfile | None) -> Table:
    """Return the functions with the most time; with `base`, those whose share differs most from its own."""
    shares = self_shares(of)
    if base is None:
        rows = [(name, _percent(share)) for name, share in sorted(shares.items(), key=lambda each: -each[1])]
        caption = gettext(
            "{name}: functions with the most CPU time of the server, without what they call", name=of.name
        )
        return Table(caption, (gettext("function"), gettext("share, %")), tuple(rows[:MOST_FUNCTIONS]))
    before = self_shares(base)
    differences = {name: shares.get(name, 0.0) - before.get(name, 0.0) for name in {**before, **shares}}
    names = sorted(differences, key=lambda name: (-abs(differences[name]), name))[:MOST_FUNCTIONS]
    rows_of_two = [
        (
            name,
            _percent(before.get(name, 0.0)),
            _percent(shares.get(name, 0.0)),
            f"{100 * differences[name]:+.2f}",
            f"{100 * _sampling_error(name, base, before, of, shares):.2f}",
        )
        for name in names
    ]
    caption = gettext(
        "{other} vs {base}: functions whose share of the server's CPU time differs most, without what they call; ± is "
        "the error of sampling alone (95 %)",
        other=of.name,
        base=base.name,
    )
    headings = (gettext("function"), f"{base.name}, %", f"{of.name}, %", gettext("difference, points"), "±")
    return Table(caption, headings, tuple(rows_of_two))


def _sampling_error(
    name: str, base: ArmProfile, before: dict[str, float], of: ArmProfile, shares: dict[str, float]
) -> float:
    """Return half of the interval (95 %) of a difference of two shares: the normal approximation of the binomial."""
    variances = [
        share * (1 - share) / sum(each.stacks.values())
        for each, share in ((base, before.get(name, 0.0)), (of, shares.get(name, 0.0)))
    ]
    return _Z * math.sqrt(sum(variances))


def _percent(share: float) -> str:
    return f"{100 * share:.2f}"


def profile_lines(profiles: Sequence[ArmProfile]) -> Iterator[str]:
    """Yield for each profile how it was taken, and what perf cost."""
    for each in profiles[:MOST_PROFILES]:
        of = each.record
        if of.event == ProfileRecord.INSTRUCTIONS:
            yield gettext("{name}: {number} instructions in the flame graph", name=each.name, number=f"{of.samples:,}")
            continue
        event, _, modifiers = of.event.partition(":")
        yield gettext(
            "{name}: {samples} samples of the server at {clients}, {hz} a second of each busy processor ({event}); "
            "{tps} tps under perf in one short load, {change} vs the median of the trials",
            name=each.name,
            samples=f"{of.samples:,}",
            clients=numbers.clients(of.point.clients),
            hz=of.hz,
            event=gettext("{event}, without the kernel", event=event) if "u" in modifiers else event,
            tps=numbers.round_text(of.tps),
            change=percent(of.tps / of.tps_median - 1) if of.tps_median > 0 else numbers.NOTHING,
        )
        if of.unresolved > MOSTLY * of.samples:
            yield gettext(
                "{name}: {share} % of the samples are in functions without symbols, counted by file; the server's "
                "debug symbols show them",
                name=each.name,
                share=numbers.round_text(100 * of.unresolved / of.samples, 2),
            )


def function_tables(profiles: Sequence[ArmProfile]) -> list[Table]:
    """Return a table for each comparison; of a single profile, its own."""
    # of counts, a table of their own has exact figures
    shown = [each for each in profiles[:MOST_PROFILES] if each.record.event != ProfileRecord.INSTRUCTIONS]
    compared = [(each, baseline_of(shown, at)) for at, each in enumerate(shown)]
    return [function_table(each, base) for each, base in compared if base is not None or len(shown) == 1]


def profile_blocks(profiles: Sequence[ArmProfile], *, brief: bool = False) -> list[Block]:
    """Return the blocks of a section: how the profiles were taken, their tables, and flame graphs on request."""
    shown = profiles[:MOST_PROFILES]
    blocks: list[Block] = [*profile_lines(shown), *function_tables(shown)]
    if brief:
        return blocks
    for at, each in enumerate(shown):
        base = baseline_of(shown, at)
        is_counted = each.record.event == ProfileRecord.INSTRUCTIONS
        if base is None and is_counted:
            title = gettext("{name}: width is the share of the instructions", name=each.name)
        elif base is None:
            title = gettext("{name}: width is the share of the server's CPU time", name=each.name)
        elif is_counted:
            title = gettext(
                "{other}: width is the share of the instructions; orange where that is more than with {base}, blue "
                "where less",
                other=each.name,
                base=base.name,
            )
        else:
            title = gettext(
                "{other}: width is the share of the server's CPU time; orange where that is more than with {base}, "
                "blue where less",
                other=each.name,
                base=base.name,
            )
        figure = flame_figure(f"flame-{at}", title, each.stacks, base.stacks if base is not None else None)
        blocks.append(Folded(gettext("Flame graph of {name}", name=each.name), [figure]))
    return blocks
