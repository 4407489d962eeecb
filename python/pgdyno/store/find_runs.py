"""Find runs: in folders, by names and patterns, on disk and on object storage."""

from __future__ import annotations

import glob
import html
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Any

from pgdyno import records
from pgdyno.errors import StoreError, UsageError
from pgdyno.mounts import expand_home, is_file, is_folder
from pgdyno.store.object_storage.address import WILD, Address, is_remote
from pgdyno.store.run_folder import ATTEMPT, MANIFEST, RunFolder, trial_folders
from pgdyno.store.safe_files import open_regular, parse_json, read_record, store_errors, write_durably
from pgdyno.units import quantity

LATEST = "latest"
_LATEST = re.compile(r"latest(?:~([0-9]{1,4}))?")
"""`latest~2` is the second run before the latest, as in Git."""
REPORT, HEAD = "report.html", 16_384
"""A run's report, and the bytes of it that are read: its description is the answer."""
_META = re.compile(r'<meta name="(description|validity|noise)" content="([^"]{0,2000})">')


BISECTION = "bisect.json"
"""The journal in a folder of `pgdyno bisect`, which is not a run, but has runs below it."""


@dataclass(frozen=True, slots=True)
class RunEntry:
    """A folder among the runs."""

    name: str
    path: Path
    started_at: datetime
    """Of a run that cannot be read, from its name, else the earliest time."""
    workload: str = ""
    targets: Sequence[str] = ()
    trials_done: int = 0
    trials_planned: int = 0
    outcome: str | None = None
    """None while it is in progress, or if it was killed."""
    is_cut: bool = False
    """Whether a time budget left out some of its trials."""
    problem: str | None = None
    """Why it cannot be read."""


def _start_in(name: str) -> datetime | None:
    """Return the second of the start in a name that pgdyno has given; None for another name."""
    try:
        return datetime.strptime(name.split("-", 1)[0], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        return None


def list_runs(parent: Path) -> list[RunEntry]:
    """Return every folder in `parent`, newest first; an unreadable one has the reason.

    A parent that does not exist has no runs. Raises StoreError if it cannot be listed.
    """
    return _in_order(_folders(parent))


def newest_first(parent: Path) -> Iterator[Path]:
    """Yield every folder in `parent`, as `list_runs` sorts them, without reading all manifests.

    The names that pgdyno gives contain the second of the start: only manifests of other folders, and of runs of the
    same second, are read. Raises StoreError if the parent cannot be listed.
    """
    by_second: dict[datetime, list[Path]] = {}
    for path in _folders(parent):
        start = _start_in(path.name) or _entry(path).started_at.replace(microsecond=0)
        by_second.setdefault(start, []).append(path)
    for _, paths in sorted(by_second.items(), reverse=True):
        yield from paths if len(paths) == 1 else (entry.path for entry in _in_order(paths))


def _folders(parent: Path) -> list[Path]:
    with store_errors("list the runs in", parent):
        if not parent.exists() and not parent.is_symlink():
            return []
        found = [path for path in parent.iterdir() if path.is_dir() and not path.name.startswith(".")]
        return [path for path in found if not is_file(path / BISECTION)]


def _in_order(paths: Iterable[Path]) -> list[RunEntry]:
    return sorted((_entry(path) for path in paths), key=lambda entry: (entry.started_at, entry.name), reverse=True)


def _entry(path: Path) -> RunEntry:
    try:
        try:
            # without the model of a manifest, whose import takes a third of the command's time
            entry = _read_entry(path, parse_json(read_record(path / MANIFEST)))
        except (AttributeError, KeyError, TypeError, ValueError, StoreError):
            entry = _read_entry(path, RunFolder.open(path).manifest.model_dump(mode="json"))
        return replace(entry, trials_done=len(trial_folders(path)))
    except StoreError as error:
        started_at = _start_in(path.name) or datetime.min.replace(tzinfo=UTC)
        return RunEntry(path.name, path, started_at, problem=error.message)


def _read_entry(path: Path, manifest: Any) -> RunEntry:  # noqa: ANN401 - JSON
    started_at, outcome = datetime.fromisoformat(manifest["started_at"]), manifest.get("outcome")
    targets = [each["name"] for each in manifest["targets"]]
    texts = [manifest["workload"], *targets, outcome or ""]
    # a time without a zone is one of UTC for the model
    is_usual = manifest["format"] <= records.FORMAT and started_at.tzinfo is not None
    is_usual = is_usual and records.EARLIEST <= started_at.year <= records.LATEST
    if not (is_usual and all(isinstance(each, str) for each in texts)):
        raise ValueError
    is_cut, planned = bool((manifest.get("budget") or {}).get("dropped")), int(manifest["trials_planned"])
    return RunEntry(path.name, path, started_at, manifest["workload"], targets, 0, planned, outcome, is_cut)


@dataclass(frozen=True, slots=True)
class ReportHead:
    """What the head of a report says; empty without a report that says so."""

    answer: str = ""
    """Without its tables."""
    validity: str = ""
    """`not valid`, or how many rules of the audit passed."""
    noise: str = ""
    """The letter of the noise grade."""

    @property
    def is_not_valid(self) -> bool:
        return self.validity == "not valid"

    @classmethod
    def parse(cls, text: str) -> ReportHead:
        # the first of each is pgdyno's own: what follows may be a text from elsewhere
        found = {name: html.unescape(value) for name, value in reversed(_META.findall(text))}
        return cls(found.get("description", ""), found.get("validity", ""), found.get("noise", ""))


def read_report_head(run: Path) -> ReportHead:
    """Return the head of a run's report; an empty one without a report."""
    try:
        with open_regular(run / REPORT) as file:
            return ReportHead.parse(file.read(HEAD).decode(errors="replace"))
    except (OSError, StoreError):
        return ReportHead()


def note_attempt(parent: Path, plan: str) -> None:
    """Keep in `parent` that `plan` was asked for, until a run's folder is made."""
    # who may not write there is told by what makes that folder
    with suppress(OSError):
        if is_folder(parent):
            write_durably(parent / ATTEMPT, os.fsencode(plan))


def refuse_outdated(latest: Path) -> None:
    """Raise UsageError if a plan was asked for after the run `latest` began, and has not become one."""
    with suppress(OSError):
        with open_regular(latest.parent / ATTEMPT) as file:
            plan = file.read(HEAD).decode(errors="replace")
        raise UsageError(
            f"the latest run, {latest.name}, is older than the last attempt: {plan} was refused, or has not begun",
            hint=f"run the plan again, or name {latest.name}",
        )


def find_run(text: str, parent: Path) -> RunFolder:
    """Return the run that `text` names: a path, a name in `parent`, a unique prefix of a name, or `latest`.

    A run on object storage is downloaded, and removed when this process ends.

    Raises UsageError for an ambiguous prefix, StoreError if there is none or it cannot be read.
    """
    if not is_remote(text):
        return RunFolder.open(find_path(text, parent))
    from pgdyno.store.object_storage.runs import borrow_run

    return borrow_run(text)


def find_path(text: str, parent: Path) -> Path:
    """Return the folder of a run that is not on object storage, as `find_run`; the run may be unreadable."""
    # try a path first, because it is unambiguous
    if "/" in text or is_file(Path(text) / MANIFEST):
        return expand_home(text)
    if (latest := _LATEST.fullmatch(text)) is not None:
        newest = list(islice(newest_first(parent), int(latest[1] or 0) + 1))
        if not newest:
            raise StoreError(f"there are no runs in {_describe_folder(parent)}", hint="pgdyno run quick makes one")
        if len(newest) <= int(latest[1] or 0):
            raise StoreError(f"there is no run {text}: {parent} has {quantity(len(newest), 'run')}")
        return newest[-1]
    paths = _folders(parent)
    matches = [path for path in paths if path.name == text]
    matches = matches or sorted((path for path in paths if text and path.name.startswith(text)), reverse=True)
    if len(matches) > 1:
        names = ", ".join(path.name for path in matches[:5]) + (", ..." if len(matches) > 5 else "")
        raise UsageError(f"{text} is ambiguous: it matches {len(matches)} runs: {names}", hint="type more of the name")
    if not matches:
        other = _not_a_run(Path(text)) if text else None
        if other is not None:
            raise other
        close = get_close_matches(text, [path.name for path in paths], n=1)
        hint = f"did you mean {close[0]}?" if close else "to list all runs: pgdyno list"
        raise StoreError(f"there is no run {text} in {_describe_folder(parent)}", hint=hint)
    return matches[0]


def find_bisection(text: str, parent: Path) -> Path | None:
    """Return the folder of the bisection that `text` names by its path or its name in `parent`; None for a run."""
    return next((path for path in (expand_home(text), parent / text) if is_file(path / BISECTION)), None)


def _describe_folder(parent: Path) -> str:
    return f"{parent}" if is_folder(parent) else f"{parent}: the folder does not exist"


def _not_a_run(path: Path) -> StoreError | None:
    """Return the error for a path that exists and is no run; None if it does not exist."""
    if is_file(path):
        return StoreError(f"{path} is a file, not a run", hint="name the run's folder")
    if not is_folder(path):
        return None
    runs = [entry.name for entry in list_runs(path) if entry.problem is None]
    if not runs:
        return StoreError(f"{path} is a folder without runs", hint="to list all runs: pgdyno list")
    return StoreError(
        f"{path} is a folder of runs", hint=f"name one of them, such as {shlex.quote(str(path / runs[0]))}"
    )


@dataclass(frozen=True, slots=True)
class NamedRuns:
    """The runs that the arguments of a command name."""

    places: Sequence[str]
    """Paths and addresses without duplicates, in order of the arguments."""
    is_one: bool
    """Whether the user named a single run, and no pattern or folder."""


def named_runs(texts: Sequence[str], parent: Path) -> NamedRuns:
    """Return the runs that `texts` name; names without a slash are in `parent`, as in `find_run`.

    Does not read them; a broken run is reported by its reader. Raises StoreError and UsageError.
    """
    found: list[str] = []
    is_one = len(texts) == 1
    for text in texts:
        if is_remote(text):
            from pgdyno.store.object_storage.find_remote import several_runs

            several = several_runs(text)
        else:
            several = _several_here(text)
        if several is not None and not several:
            raise StoreError(f"there are no runs at {text}", hint="name a run, or a folder that has runs in it")
        is_one = is_one and several is None
        if several is None:
            several = [str(Address.parse(text)) if is_remote(text) else str(find_run(text, parent).path)]
        found += several
    return NamedRuns(list(dict.fromkeys(found)), is_one)


def _several_here(text: str) -> list[str] | None:
    path = expand_home(text)
    if is_folder(path):
        if is_file(path / MANIFEST):
            return None
        with store_errors("list the runs in", path):
            below = sorted(each for each in path.iterdir() if each.is_dir() and not each.name.startswith("."))
        # a folder without runs is not a folder of runs
        return [str(each) for each in below] if any(is_file(each / MANIFEST) for each in below) else None
    if WILD.search(text) is None:
        return None
    return sorted(each for each in glob.glob(str(path)) if is_folder(each))  # noqa: PTH207 - of any place
