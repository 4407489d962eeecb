"""A bisection for people: its commits, its answer, and the command that repeats or continues it."""

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from rich.text import Text

from pgdyno.bisection.journal import Difference, Journal, JournalFile, Visit
from pgdyno.bisection.repository import Commit
from pgdyno.bisection.search import likely
from pgdyno.errors import ExitCode, StoreError
from pgdyno.report.answers.comparison import percent
from pgdyno.report.answers.instruction_costs import counted_arms, function_table
from pgdyno.report.numbers import round_text
from pgdyno.report.sections.section_blocks import Block, Code, Items
from pgdyno.report.table import Table
from pgdyno.report.terminal.block_lines import block_lines, text_lines
from pgdyno.report.terminal.summary_file import Layout
from pgdyno.safe_output import visible
from pgdyno.store import load_run
from pgdyno.units import quantity

_WORDS = {
    "tps": ("slower", "faster"),
    "instructions": ("more expensive in instructions", "cheaper in instructions"),
    "p99": ("slower by p99 latency", "faster by p99 latency"),
}
_FIGURES = {"tps": ("tps", 1.0), "instructions": ("instructions", 1.0), "p99": ("p99, ms", 1e-6)}
"""The heading of a figure, and what makes its unit of the stored one."""
_OPTIONS = {"overrides": "set", "settings": "set", "scripts": "script"}


def bisection_lines(file: JournalFile, layout: Layout, last: Sequence[str] = ()) -> list[Text]:
    """Return the commits, the command, `last` and the answer for a terminal."""
    lines = [line for filled in _sections(file).values() for line in block_lines(filled, layout)]
    answer = text_lines(verdict(file.journal)[0], layout.room, "bold")
    return [*lines, Text(""), *map(Text, last), *answer]


def bisection_page(file: JournalFile) -> str:
    from pgdyno.report.html import render_sections

    journal = file.journal
    filled = [(title.lower().replace(" ", "-"), title, title, blocks) for title, blocks in _sections(file).items()]
    return visible(render_sections("bisect", journal.started_at, journal.pgdyno, verdict(journal)[0], filled))


def _sections(file: JournalFile) -> Mapping[str, Sequence[Block]]:
    journal = file.journal
    skipped = [skip_line(journal.commit(each.commit), each) for each in journal.skipped]
    changed = _changed_functions(file)
    title = "To continue" if _is_open(journal) else "To repeat"
    return {
        "Commits": [_commit_table(journal), *([Items(skipped)] if skipped else [])],
        **({"Functions": [changed]} if changed is not None else {}),
        title: [Code(_command(file), title)],
    }


def _is_open(journal: Journal) -> bool:
    return journal.found is None and (journal.ends is None or journal.ends.shown)


def _command(file: JournalFile) -> str:
    if _is_open(file.journal):
        return shlex.join(["pgdyno", "bisect", "--resume", str(file.folder)])
    asked, ends = (
        file.journal.asked,
        {"good": file.journal.commit(0).sha, "bad": file.journal.commit(file.journal.last).sha},
    )
    given = asked.model_dump(exclude_defaults=True, exclude={"plan", "version", "cache_bytes", "check_first"}) | ends
    words = [] if asked.plan is None else [asked.plan]
    for name, value in given.items():
        values = value if isinstance(value, list) else [value]
        words += [f"--{_OPTIONS.get(name, name)}={each}" for each in values]
    return shlex.join(["pgdyno", "bisect", *words, f"--cache={asked.cache_bytes}B"])


def _commit_table(journal: Journal) -> Table:
    """Return a row for each look at a commit, and one for those between two that were not measured."""
    ends = [(0, None, "good"), (journal.last, journal.ends, "bad")]
    looks = [(visit.commit, visit.difference, _state(visit)) for visit in journal.visits]
    rows = sorted([*ends, *looks], key=lambda each: each[0])
    found, (heading, unit) = journal.found, _FIGURES[journal.by]
    cells: list[tuple[str, ...]] = []
    for (before, _, _), (number, of, state) in pairwise([(-1, None, ""), *rows]):
        if number > before + 1:
            cells.append(("", f"{quantity(number - before - 1, 'commit')} between", "not measured", "", "", "", ""))
        commit = journal.commit(number)
        built_s = journal.build_s.get(commit.sha)
        base = journal.ends.figures[0] if number == 0 and journal.ends is not None else None
        figure = base if of is None else of.figures[1]
        change = None if of is None else effect(of, journal.by)
        is_found = found is not None and found.first <= number <= found.last
        cells.append(
            (
                commit.short,
                commit.subject,
                f"{state}, found" if is_found else state,
                "" if figure is None else round_text(figure * unit, 4),
                "" if change is None else percent(change[0]),
                "" if change is None else f"{percent(change[1]).removesuffix(' %')} to {percent(change[2])}",
                "" if built_s is None else f"{built_s:.0f}",
            )
        )
    headings = ("commit", "subject", "state", heading, "change", "95 % interval", "build, s")
    return Table(f"Commits, compared with {journal.commit(0).short}", headings, tuple(cells), 3, (0, 0, 0, 3, 1, 2, 3))


def _state(visit: Visit) -> str:
    if visit.slow is None:
        return "skipped"
    return f"as {'bad' if visit.slow > 0.5 else 'good'}, {percent(max(visit.slow, 1 - visit.slow), plus=False)}"


def _changed_functions(file: JournalFile) -> Table | None:
    found = file.journal.found
    if found is None or found.effect is None or file.journal.by != "instructions":
        return None
    names = [file.journal.commit(each).short for each in (found.first - 1, found.last)]
    try:
        counts = [counted_arms(load_run(file.folder / each))[0] for each in found.effect.runs]
    except StoreError:
        # people remove runs to make room
        return None
    base, other = (replace(arm, name=name) for arm, name in zip(counts, names, strict=True))
    return function_table(base, other)


def skip_line(commit: Commit, visit: Visit) -> str:
    reason = (visit.reason or "").partition("\n")[0].removesuffix(":")
    return f"skipped {commit.words}: {reason}"


def effect(of: Difference, by: str) -> tuple[float, float, float]:
    """Return the relative change of the figure that is compared, and the ends of its interval."""
    sign = -1 if by == "tps" else 1
    low, high = sorted(math.expm1(sign * each) for each in (of.low, of.high))
    return math.expm1(sign * of.mean), low, high


def difference(of: Difference, by: str) -> str:
    """Return `5.1 % slower (95 % interval 4.2 to 6.0 %)`."""
    ends = (of.mean, of.low, of.high) if of.mean >= 0 else (-of.mean, -of.high, -of.low)
    # of throughput, the share that is lost or gained, as `ab` says it
    sign = -1 if (by == "tps") == (of.mean >= 0) else 1
    change, low, high = (percent(sign * math.expm1(sign * each), plus=False) for each in ends)
    return f"{change} {_WORDS[by][of.mean < 0]} (95 % interval {low.removesuffix(' %')} to {high})"


def verdict(journal: Journal) -> tuple[str, ExitCode]:
    found = journal.found
    if journal.ends is None:
        return "not finished: the good and the bad commit are not compared yet", ExitCode.INTERRUPTED
    if journal.ends.high < 0:
        return f"the bad commit is {difference(journal.ends, journal.by)} than the good one", ExitCode.USAGE
    if not journal.ends.shown:
        change = difference(journal.ends, journal.by)
        return f"cannot tell: no difference between good and bad is shown, {change}", ExitCode.INCONCLUSIVE
    if found is None:
        return f"not finished: {quantity(likely(journal.last, journal.looks), 'commit')} left", ExitCode.INTERRUPTED
    names = [journal.commit(each).words for each in range(found.first, found.last + 1)]
    sure = f"probability {percent(found.probability, plus=False)}, after {quantity(journal.builds, 'build')}"
    if found.effect is None:
        return f"cannot tell: {' or '.join(names)} is the most probable, with {sure}", ExitCode.INCONCLUSIVE
    made = f"made it {difference(found.effect, journal.by)}, {sure}"
    if not found.effect.shown:
        probable = f"{' or '.join(names)}, {sure}, but compared again with {journal.commit(found.first - 1).short}"
        change = difference(found.effect, journal.by)
        return f"cannot tell: {probable}, no difference is shown, {change}", ExitCode.INCONCLUSIVE
    if len(names) > 1:
        return f"one of {len(names)} commits, {', '.join(names)}, {made}; the others cannot be measured", ExitCode.OK
    return f"{names[0]} {made}", ExitCode.OK
