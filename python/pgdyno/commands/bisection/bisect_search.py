"""What `pgdyno bisect` does: it measures commits until one of them is the answer, and prints it."""

from __future__ import annotations

import math
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from pgdyno.bisection.commit_arms import Arms
from pgdyno.bisection.journal import Asked, Difference, Found, JournalFile, Visit
from pgdyno.bisection.repository import Commit, Repository
from pgdyno.bisection.search import BY_COUNTS, BY_PAIRS, CERTAIN, likely, most_looks, next_commit, slow_chance, suspects
from pgdyno.commands.bisection.bisect_looks import Looks, SkippedError
from pgdyno.commands.bisection.bisect_plan import load_asked
from pgdyno.commands.support.carry_out import How, Output, check_folder, when_busy
from pgdyno.console import Console
from pgdyno.errors import ExitCode, UsageError
from pgdyno.mounts import exists, expanded
from pgdyno.report.answers.comparison import percent
from pgdyno.report.answers.instruction_costs import counted_arms, function_table
from pgdyno.report.table import Table
from pgdyno.report.terminal.block_lines import block_lines
from pgdyno.report.terminal.summary_file import Layout, print_lines
from pgdyno.report.terminal.text_drawing import printable
from pgdyno.safe_output import print_json
from pgdyno.store import load_run
from pgdyno.targets import Home, Progress, SilentProgress
from pgdyno.units import counted, parse_bytes

if TYPE_CHECKING:
    from pgdyno.commands.bisection.bisect import BisectCommand

_OF_SERVER = ("src/backend", "src/include/postgres.h")
"""What the repository of PostgreSQL has, and that of an extension has not."""
_WORDS = {
    "tps": ("slower", "faster"),
    "instructions": ("more expensive in instructions", "cheaper in instructions"),
    "p99": ("slower by p99 latency", "faster by p99 latency"),
}


def bisect(given: BisectCommand) -> ExitCode:
    """Carry out the command and print the answer. Raises PgdynoError if nothing is found out."""
    check_folder(given.runs)
    say = _Lines(quiet=given.quiet)
    home = Home.locate()
    with home.locked("bisect", say, "waiting for another pgdyno bisect, which uses the same builds"):
        if given.resume is not None:
            _refuse_question(given)
            file = JournalFile.open(given.resume, given.runs)
            repository = Repository(Path(file.journal.asked.repo))
        else:
            asked = _asked(given)
            repository = Repository(Path(asked.repo))
            history = repository.history(asked.good, asked.bad)
            if history.note is not None:
                say.step(str(history.note))
            # wrong options are refused before anything is stored
            by = _arms(asked, repository, history.commits[0], home, say).by
            file = JournalFile.create(given.runs, asked.model_copy(update={"by": by}), history.commits)
        journal = file.journal
        arms = _arms(journal.asked, repository, journal.commit(0), home, say)
        busy = when_busy(wait=given.wait, alongside=given.alongside)
        how = How(given.runs, Output(None, None, given.quiet, given.json), None, None, busy, not given.no_preflight)
        bisection = _Bisection(file, Looks(arms, journal.asked, how), arms, say)
        try:
            bisection.find()
        except BaseException:
            if not file.discard_unused():
                say.step(f"to resume: pgdyno bisect --resume {shlex.quote(str(file.folder))}")
            raise
    assert journal.ends is not None
    _refuse_reversed(journal.ends, journal.by)
    return _answer(file, as_json=given.json)


def _arms(asked: Asked, repository: Repository, good: Commit, home: Home, say: Progress) -> Arms:
    is_server = all(repository.has(good.sha, path) for path in _OF_SERVER)
    return Arms(asked, load_asked(asked, good.sha, is_server=is_server), home, say, is_server=is_server)


def _refuse_question(given: BisectCommand) -> None:
    if given.repo or given.good or given.plan or given.script:
        raise UsageError("--resume continues a bisection as it was begun", hint="remove the other options")


def _asked(given: BisectCommand) -> Asked:
    """Return the options as they are stored. Raises UsageError."""
    if given.repo is None or given.good is None:
        message = "a bisection needs --repo and --good"
        raise UsageError(message, hint="such as --repo ~/postgresql --good REL_17_0 --bad REL_18_0 -f query.sql")
    if (given.plan is None) == (not given.script):
        raise UsageError("name the load: either a plan, or scripts with -f", hint="such as -f query.sql")
    if given.plan is not None and (given.setup or given.scale or given.bin_ or given.rate):
        raise UsageError("--setup, --scale, --bin and --rate are keys of the plan", hint="write them into the plan")
    try:
        cache_bytes = parse_bytes(given.cache)
    except ValueError as error:
        raise UsageError(f"--cache: {error}") from error
    settings = given.settings or []
    return Asked(
        repo=str(expanded(given.repo).resolve()),
        good=given.good,
        bad=given.bad,
        by=given.by or (None if given.plan else "instructions" if shutil.which("valgrind") else "tps"),
        plan=_absolute(given.plan) if given.plan is not None else None,
        overrides=[] if given.plan is None else settings,
        settings=settings if given.plan is None else [],
        scripts=[_absolute(each) for each in given.script or []],
        setup=str(given.setup.absolute()) if given.setup else None,
        scale=given.scale,
        clients=given.clients,
        rate=given.rate,
        duration=given.duration,
        warmup=given.warmup,
        pairs=given.pairs,
        bin=_absolute(given.bin_) if given.bin_ is not None else None,
        configure=given.configure or [],
        build=given.build,
        cache_bytes=cache_bytes,
    )


def _absolute(text: str) -> str:
    """Return `text` with an absolute path if it names a file, also with a weight: --resume may begin elsewhere."""
    file, at, weight = (text, "", "") if exists(expanded(text)) else text.rpartition("@")
    return f"{expanded(file).absolute()}{at}{weight}" if file and exists(expanded(file)) else text


class _Lines(SilentProgress):
    """Prints each step on a line of its own."""

    def __init__(self, *, quiet: bool) -> None:
        self._console = Console(stderr=True)
        self._quiet = quiet

    def step(self, text: str) -> None:
        if not self._quiet:
            self._console.print(Text(printable(text)), soft_wrap=True)


class _Bisection:
    """Measures until the journal has an answer; each step is stored before the next one."""

    def __init__(self, file: JournalFile, looks: Looks, arms: Arms, say: _Lines) -> None:
        self._file = file
        self._journal = file.journal
        self._looks = looks
        self._arms = arms
        self._say = say

    def find(self) -> None:
        """Raise PgdynoError if the good or the bad commit cannot be measured."""
        journal = self._journal
        if journal.found is not None:
            return
        if journal.ends is None:
            journal.ends = self._measure_ends()
            self._file.write()
        if not journal.ends.shown:
            return
        while (commit := next_commit(journal.last, journal.looks)) is not None:
            if len(journal.visits) >= most_looks(journal.last):
                break
            journal.visits.append(self._look_at(commit, journal.ends.mean / 2))
            self._file.write()
        journal.found = self._conclude()
        self._file.write()

    def _measure_ends(self) -> Difference:
        good, bad = self._journal.commit(0), self._journal.commit(self._journal.last)
        self._say.step(f"{counted(self._journal.last, 'commit')} from {good.words} to {bad.words}")
        ends = self._looks.compare(good, bad, self._file.folder / "ends")
        self._say.step(f"{bad.short} is {_difference(ends, self._journal.by)} than {good.short}")
        return ends

    def _look_at(self, number: int, threshold: float) -> Visit:
        journal, commit = self._journal, self._journal.commit(number)
        left = counted(likely(journal.last, journal.looks), "commit")
        self._say.step(f"next: {commit.words}, {number} of {journal.last}; {left} left")
        place = self._file.folder / f"look-{len(journal.visits) + 1}-{commit.short}"
        try:
            found = self._looks.compare(journal.commit(0), commit, place, threshold)
        except SkippedError as error:
            skipped = Visit(commit=number, reason=error.message.removeprefix(f"target {commit.short}: "))
            self._say.step(_skip_line(commit, skipped))
            return skipped
        # equal counts differ by so little that their few repeats say it with certainty
        spread, trusted = (0.0, BY_COUNTS) if journal.by == "instructions" else (found.error, BY_PAIRS)
        slow = slow_chance(found.mean, spread, found.freedom, threshold, trusted)
        like = f"like the {'bad' if slow > 0.5 else 'good'} one, {percent(max(slow, 1 - slow), plus=False)} sure"
        self._say.step(f"{commit.short} is {_difference(found, journal.by)}: {like}")
        return Visit(commit=number, difference=found, slow=slow)

    def _conclude(self) -> Found:
        """Measure the effect of the commit that is found, against the one before."""
        journal = self._journal
        found = suspects(journal.last, journal.looks)
        effect = None
        if found.probability >= CERTAIN:
            before, commit = journal.commit(found.first - 1), journal.commit(found.last)
            self._say.step(f"measuring {commit.short} against {before.short}, the commit before")
            effect = self._looks.compare(before, commit, self._file.folder / "effect")
        return Found(first=found.first, last=found.last, probability=found.probability, effect=effect)


def _refuse_reversed(ends: Difference, by: str) -> None:
    if ends.high < 0:
        raise UsageError(
            f"the bad commit is {_difference(ends, by)} than the good one",
            hint="exchange --good and --bad if the newer one is the good one; or compare something else with --by",
        )


def _skip_line(commit: Commit, visit: Visit) -> str:
    reason = (visit.reason or "").partition("\n")[0].removesuffix(":")
    return f"skipped {commit.words}: {reason}"


def _difference(of: Difference, by: str) -> str:
    """Return `5.1 % slower (95 % interval 4.2 to 6.0 %)`."""
    ends = (of.mean, of.low, of.high) if of.mean >= 0 else (-of.mean, -of.high, -of.low)
    # of throughput, the share that is lost or gained, as `ab` says it
    sign = -1 if (by == "tps") == (of.mean >= 0) else 1
    change, low, high = (percent(sign * math.expm1(sign * each), plus=False) for each in ends)
    return f"{change} {_WORDS[by][of.mean < 0]} (95 % interval {low.removesuffix(' %')} to {high})"


def _answer(file: JournalFile, *, as_json: bool) -> ExitCode:
    journal = file.journal
    line, code = _verdict(file)
    if as_json:
        found = journal.found
        print_json(
            {
                "folder": str(file.folder),
                "answer": line,
                "commits": [journal.commit(each).sha for each in range(found.first, found.last + 1)] if found else [],
                "probability": found.probability if found else None,
                "effect": _effect_json(found.effect, journal.by) if found and found.effect else None,
                "builds": journal.builds,
                "skipped": [journal.commit(each.commit).sha for each in journal.skipped],
            }
        )
        return code
    console = Console()
    for visit in sorted(journal.skipped, key=lambda each: each.commit):
        console.print(Text(printable(_skip_line(journal.commit(visit.commit), visit))), soft_wrap=True)
    changed = _changed_functions(file)
    if changed is not None:
        print_lines([*block_lines([changed], Layout.of(console)), Text("")], console)
    console.print(Text(f"journal: {file.folder}"), soft_wrap=True)
    console.print(Text(printable(line), "bold"), soft_wrap=True)
    return code


def _changed_functions(file: JournalFile) -> Table | None:
    found = file.journal.found
    if found is None or found.effect is None or file.journal.by != "instructions":
        return None
    names = [file.journal.commit(each).short for each in (found.first - 1, found.last)]
    counted = [counted_arms(load_run(file.folder / each))[0] for each in found.effect.runs]
    base, other = (replace(arm, name=name) for arm, name in zip(counted, names, strict=True))
    return function_table(base, other)


def _effect_json(of: Difference, by: str) -> dict[str, object]:
    sign = -1 if by == "tps" else 1
    low, high = sorted(math.expm1(sign * each) for each in (of.low, of.high))
    return {"change": math.expm1(sign * of.mean), "low": low, "high": high, "shown": of.shown}


def _verdict(file: JournalFile) -> tuple[str, ExitCode]:
    """Return the last line, and the exit code."""
    journal, found = file.journal, file.journal.found
    assert journal.ends is not None
    if found is None:
        change = _difference(journal.ends, journal.by)
        return f"cannot tell: no difference between good and bad is shown, {change}", ExitCode.INCONCLUSIVE
    names = [journal.commit(each).words for each in range(found.first, found.last + 1)]
    sure = f"probability {percent(found.probability, plus=False)}, after {counted(journal.builds, 'build')}"
    if found.effect is None:
        likely = f"{' or '.join(names)} is the most probable, with {sure}"
        return f"cannot tell: {likely}", ExitCode.INCONCLUSIVE
    made = f"made it {_difference(found.effect, journal.by)}, {sure}"
    if not found.effect.shown:
        likely = f"{' or '.join(names)}, {sure}, but compared again with {journal.commit(found.first - 1).short}"
        change = _difference(found.effect, journal.by)
        return f"cannot tell: {likely}, no difference is shown, {change}", ExitCode.INCONCLUSIVE
    if len(names) > 1:
        return f"one of {len(names)} commits, {', '.join(names)}, {made}; the others cannot be measured", ExitCode.OK
    return f"{names[0]} {made}", ExitCode.OK
