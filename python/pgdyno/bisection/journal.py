"""What a bisection was asked, has measured and has found: a file that is replaced after each step, to resume from."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from pgdyno import __version__
from pgdyno.bisection.repository import Commit
from pgdyno.bisection.search import Look
from pgdyno.errors import StoreError, UsageError
from pgdyno.store.find_runs import BISECTION, find_bisection
from pgdyno.store.safe_files import replace_durably, store_errors

FILE = BISECTION
FORMAT = 1
By = Literal["tps", "p99", "instructions"]


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Asked(_Record):
    """The options of the command, with absolute paths."""

    repo: str
    good: str
    bad: str
    by: By | None = None
    """None, before the plan was read: what it measures."""
    plan: str | None = None
    """A plan file, or a name of the catalogue."""
    overrides: list[str] = []
    scripts: list[str] = []
    setup: str | None = None
    settings: list[str] = []
    scale: int | None = None
    clients: int = 8
    rate: float | None = None
    duration: str = "20s"
    warmup: str = "5s"
    pairs: str = "6..20"
    bin: str | None = None
    version: str | None = None
    configure: list[str] = []
    build: str | None = None
    cache_bytes: int = 0
    check_first: bool = True


class Difference(_Record):
    """How much slower one commit is than another; logarithms of the ratio, positive if it is slower."""

    mean: float
    low: float
    high: float
    error: float
    """Standard error of the mean; 0 for counts."""
    freedom: float
    level: float = 0.95
    shown: bool
    """Whether the interval is beyond what counts as none."""
    figures: tuple[float, float]
    """Of the base and of the other: transactions per second, nanoseconds, or instructions per transaction."""
    runs: list[str]
    """The run folder of the pairs, or those of the counts of both, below that of the bisection."""


class Visit(_Record):
    """A commit that was measured, or why it was not."""

    commit: int
    difference: Difference | None = None
    """From the good commit."""
    slow: float | None = None
    """See `Look`."""
    reason: str | None = None

    @property
    def look(self) -> Look:
        return Look(self.commit, self.slow)


class Found(_Record):
    """The answer."""

    first: int
    last: int
    """The commit; with those from `first` on that cannot be measured."""
    probability: float
    effect: Difference | None
    """From the last commit before `first`; None if it was not measured, because the search cannot tell."""


class Journal(_Record):
    """A bisection, as `bisect.json` has it."""

    format: int = FORMAT
    pgdyno: str = __version__
    started_at: datetime
    asked: Asked
    commits: list[tuple[str, str, str]]
    """Hash, short hash and subject of each commit, from the good to the bad one."""
    ends: Difference | None = None
    """The bad commit compared with the good one."""
    visits: list[Visit] = []
    build_s: dict[str, float] = {}
    """Seconds that each build took, by the commit's hash."""
    found: Found | None = None

    @property
    def last(self) -> int:
        """Return the number of the bad commit."""
        return len(self.commits) - 1

    @property
    def by(self) -> By:
        """Return what is compared."""
        return self.asked.by or "tps"

    @property
    def looks(self) -> list[Look]:
        return [visit.look for visit in self.visits]

    @property
    def skipped(self) -> list[Visit]:
        """Return the commits that could not be measured."""
        return [visit for visit in self.visits if visit.slow is None]

    @property
    def builds(self) -> int:
        """Return how many commits were built and measured."""
        return len({0, self.last} | {visit.commit for visit in self.visits if visit.slow is not None})

    def commit(self, number: int) -> Commit:
        return Commit(*self.commits[number])


class JournalFile:
    """The journal in its folder."""

    def __init__(self, folder: Path, journal: Journal) -> None:
        self.folder = folder
        self.journal = journal

    @classmethod
    def create(cls, runs: Path, asked: Asked, commits: Sequence[Commit]) -> JournalFile:
        """Make a folder in `runs`. Raises StoreError."""
        now = datetime.now(UTC)
        folder = runs / f"{now:%Y%m%dT%H%M%SZ}-bisect-{commits[0].short}-{commits[-1].short}"
        with store_errors("create", folder):
            folder.mkdir(parents=True)
        rows = [(each.sha, each.short, each.subject) for each in commits]
        made = cls(folder, Journal(started_at=now, asked=asked, commits=rows))
        made.write()
        return made

    @classmethod
    def open(cls, text: str, runs: Path) -> JournalFile:
        """Read the bisection that `text` names: its folder, its name in `runs`, or `latest`.

        Raises UsageError if there is none, StoreError if it cannot be read.
        """
        known = sorted(path.parent for path in runs.glob(f"*/{FILE}"))
        found = next(iter(known[-1:]), None) if text == "latest" else find_bisection(text, runs)
        if found is None:
            hint = f"name one of them, such as {known[-1]}" if known else "name its folder"
            raise UsageError(f"there is no bisection {text} in {runs}", hint=hint)
        path = found / FILE
        try:
            with store_errors("read", path):
                journal = Journal.model_validate_json(path.read_bytes())
        except ValidationError as error:
            what = error.errors(include_url=False)[0]["msg"].lower()
            raise StoreError(
                f"cannot read {path}: {what}", hint="use the version of pgdyno that began it, or begin again"
            ) from error
        return cls(found, journal)

    def discard_unused(self) -> bool:
        """Remove the folder if nothing was begun in it; return whether it was removed."""
        if [each.name for each in self.folder.iterdir()] != [FILE]:
            return False
        shutil.rmtree(self.folder, ignore_errors=True)
        return True

    def write(self) -> None:
        """Store the journal. Raises StoreError."""
        path = self.folder / FILE
        with store_errors("write", path):
            replace_durably(path, (self.journal.model_dump_json(indent=1) + "\n").encode())
