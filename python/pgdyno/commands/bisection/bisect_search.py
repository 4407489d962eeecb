"""What `pgdyno bisect` does: it measures commits until one of them is the answer, and prints it."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from pgdyno.bisection.commit_arms import Arms
from pgdyno.bisection.journal import Asked, Difference, Found, JournalFile, Visit
from pgdyno.bisection.repository import Commit, Repository
from pgdyno.bisection.search import BY_COUNTS, BY_PAIRS, CERTAIN, likely, most_looks, next_commit, slow_chance, suspects
from pgdyno.commands.bisection.bisect_looks import Looks, SkippedError
from pgdyno.commands.bisection.bisect_plan import load_asked
from pgdyno.commands.bisection.bisect_report import (
    bisection_lines,
    bisection_page,
    difference,
    effect,
    skip_line,
    verdict,
)
from pgdyno.commands.support.carry_out import How, Output, check_folder, when_busy
from pgdyno.commands.support.report_files import write_report_file
from pgdyno.console import Console
from pgdyno.errors import ExitCode, UsageError
from pgdyno.mounts import exists, expand_home
from pgdyno.report.answers.comparison import percent
from pgdyno.report.terminal.summary_file import Layout, print_lines
from pgdyno.report.terminal.text_drawing import printable
from pgdyno.safe_output import print_json
from pgdyno.store.find_runs import REPORT
from pgdyno.targets import Home, Progress, SilentProgress
from pgdyno.units import parse_bytes, quantity

if TYPE_CHECKING:
    from pgdyno.commands.bisection.bisect import BisectCommand

_OF_SERVER = ("src/backend", "src/include/postgres.h")
"""What the repository of PostgreSQL has, and that of an extension has not."""
_EFFECT = ("change", "low", "high", "shown")


def bisect(given: BisectCommand) -> ExitCode:
    """Carry out the command and print the answer. Raises PgdynoError if nothing is found out."""
    check_folder(given.runs)
    say = _Lines(quiet=given.quiet)
    home = Home.locate()
    with home.hold_lock("bisect", say, "waiting for another pgdyno bisect, which uses the same builds"):
        if given.resume is not None:
            if given.repo or given.good or given.plan or given.script:
                raise UsageError("--resume continues a bisection as it was begun", hint="remove the other options")
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
    return _answer(file, as_json=given.json)


def _arms(asked: Asked, repository: Repository, good: Commit, home: Home, say: Progress) -> Arms:
    is_server = all(repository.has(good.sha, path) for path in _OF_SERVER)
    return Arms(asked, load_asked(asked, good.sha, is_server=is_server), home, say, is_server=is_server)


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
        repo=str(expand_home(given.repo).resolve()),
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
    file, at, weight = (text, "", "") if exists(expand_home(text)) else text.rpartition("@")
    return f"{expand_home(file).absolute()}{at}{weight}" if file and exists(expand_home(file)) else text


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
            self._write()
        if not journal.ends.shown:
            return
        while (commit := next_commit(journal.last, journal.looks)) is not None:
            if len(journal.visits) >= most_looks(journal.last):
                break
            journal.visits.append(self._look_at(commit, journal.ends.mean / 2))
            self._write()
        journal.found = self._conclude()
        self._write()

    def _write(self) -> None:
        self._journal.build_s |= self._arms.build_s
        self._file.write()

    def _measure_ends(self) -> Difference:
        good, bad = self._journal.commit(0), self._journal.commit(self._journal.last)
        self._say.step(f"{quantity(self._journal.last, 'commit')} from {good.words} to {bad.words}")
        # before one of them is measured for minutes
        self._looks.build([good, bad])
        ends = self._looks.compare(good, bad, self._file.folder / "ends")
        self._say.step(f"{bad.short} is {difference(ends, self._journal.by)} than {good.short}")
        return ends

    def _look_at(self, number: int, threshold: float) -> Visit:
        journal, commit = self._journal, self._journal.commit(number)
        left = quantity(likely(journal.last, journal.looks), "commit")
        self._say.step(f"next: {commit.words}, {number} of {journal.last}; {left} left")
        place = self._file.folder / f"look-{len(journal.visits) + 1}-{commit.short}"
        try:
            found = self._looks.compare(journal.commit(0), commit, place, threshold)
        except SkippedError as error:
            skipped = Visit(commit=number, reason=error.message.removeprefix(f"target {commit.short}: "))
            self._say.step(skip_line(commit, skipped))
            return skipped
        # equal counts differ by so little that their few repeats say it with certainty
        spread, trusted = (0.0, BY_COUNTS) if journal.by == "instructions" else (found.error, BY_PAIRS)
        slow = slow_chance(found.mean, spread, found.freedom, threshold, trusted)
        like = f"like the {'bad' if slow > 0.5 else 'good'} one, {percent(max(slow, 1 - slow), plus=False)} sure"
        self._say.step(f"{commit.short} is {difference(found, journal.by)}: {like}")
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


def _answer(file: JournalFile, *, as_json: bool) -> ExitCode:
    journal = file.journal
    line, code = verdict(journal)
    page = file.folder / REPORT
    write_report_file(page, bisection_page(file))
    if code is ExitCode.USAGE:
        hint = "exchange --good and --bad if the newer one is the good one; or compare something else with --by"
        raise UsageError(line, hint=hint)
    if as_json:
        found = journal.found
        of = found.effect if found else None
        print_json(
            {
                "folder": str(file.folder),
                "answer": line,
                "commits": [journal.commit(each).sha for each in range(found.first, found.last + 1)] if found else [],
                "probability": found.probability if found else None,
                "effect": dict(zip(_EFFECT, (*effect(of, journal.by), of.shown), strict=True)) if of else None,
                "builds": journal.builds,
                "skipped": [journal.commit(each.commit).sha for each in journal.skipped],
            }
        )
        return code
    console = Console()
    print_lines(bisection_lines(file, Layout.for_console(console), [f"page: {page}"]), console)
    return code
