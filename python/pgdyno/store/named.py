"""Resolves runs as users name them: runs, folders of runs, and patterns; on disk and on object storage."""

from __future__ import annotations

import glob
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from pgdyno.errors import StoreError
from pgdyno.store.folder import MANIFEST, TRIALS
from pgdyno.store.remote import objects
from pgdyno.store.remote.address import Address, is_remote
from pgdyno.store.runs import find_run
from pgdyno.store.storing import storing

_WILD = re.compile(r"[*?\[]")


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
        several = _several_remote(text) if is_remote(text) else _several_here(text)
        is_one = is_one and several is None
        found += [_one(text, parent)] if several is None else several
    return NamedRuns(list(dict.fromkeys(found)), is_one)


def matching_objects(text: str) -> list[str]:
    """Return addresses of the objects that match the address or pattern `text`. Raises StoreError and UsageError."""
    if _WILD.search(text) is None:
        return [text]
    found = _matching(text, objects.files)
    if not found:
        raise StoreError(f"nothing matches {text}")
    return found


def _one(text: str, parent: Path) -> str:
    return str(Address.of(text)) if is_remote(text) else str(find_run(text, parent).path)


def _several_remote(text: str) -> list[str] | None:
    """Return the runs of a pattern or a folder; None for a run."""
    if _WILD.search(text) is not None:
        return _some(_matching(text, objects.folders), text)
    at = Address.of(text)
    if at.key and objects.stored(at / MANIFEST) is not None:
        return None
    names = objects.folders(at)
    if TRIALS in names:
        # a run without its manifest: its reader reports that
        return None
    return _some([str(at / name) for name in names if not name.startswith(".")], text)


def _matching(text: str, last: Callable[[Address, str], list[str]]) -> list[str]:
    """Return addresses that match the pattern `text`, level by level; `last` lists the last one."""
    at = Address.of(text)
    *levels, final = at.key.split("/")
    found = [Address(at.bucket, "")]
    for level in levels:
        found = [below for each in found for below in _level(each, level, objects.folders)]
    return [str(below) for each in found for below in _level(each, final, last)]


def _level(at: Address, pattern: str, names: Callable[[Address, str], list[str]]) -> Iterable[Address]:
    wild = _WILD.search(pattern)
    if wild is None and names is objects.folders:
        # it may not exist: the listing shows that
        return [at / pattern]
    beginning = pattern if wild is None else pattern[: wild.start()]
    there = names(at, beginning)
    return [at / name for name in there if fnmatchcase(name, pattern) and (pattern[0] == "." or name[0] != ".")]


def _several_here(text: str) -> list[str] | None:
    path = Path(text).expanduser()
    if path.is_dir():
        if (path / MANIFEST).is_file():
            return None
        with storing("list the runs in", path):
            below = sorted(each for each in path.iterdir() if each.is_dir() and not each.name.startswith("."))
        # a folder without runs is not a folder of runs
        return [str(each) for each in below] if any((each / MANIFEST).is_file() for each in below) else None
    if _WILD.search(text) is None:
        return None
    return _some(sorted(each for each in glob.glob(str(path)) if Path(each).is_dir()), text)  # noqa: PTH207 - of any place


def _some(places: list[str], text: str) -> list[str]:
    if not places:
        raise StoreError(f"there are no runs at {text}", hint="name a run, or a folder that has runs in it")
    return places
