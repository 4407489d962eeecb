"""One run folder, as `docs/reference/run-folder.md` describes it."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterable
from contextlib import AbstractContextManager
from datetime import UTC
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from pgdyno import __version__
from pgdyno.errors import StoreError
from pgdyno.records import FORMAT, Manifest, TrialRecord
from pgdyno.store.bounded import DAMAGED, NO_LINKS, parsed, read_record
from pgdyno.store.lock import run_lock
from pgdyno.store.scripts import keep_scripts
from pgdyno.store.storing import replace_durably, storing, sync
from pgdyno.store.writer import RECORD, TrialWriter, partial_path

MANIFEST = "manifest.json"
TRIALS = "trials"
SET_ASIDE = "set-aside"
"""Trials that failed and were made anew."""
_ATTEMPTS = 20

_R = TypeVar("_R", Manifest, TrialRecord)


class RunFolder:
    """A folder with a manifest and the trials that are done."""

    def __init__(self, path: Path, manifest: Manifest) -> None:
        """Use `create` or `open`."""
        self.path = path
        self._manifest = manifest
        self.location = str(path)
        """Where people find it: of a run that was fetched, its address on object storage."""

    @property
    def name(self) -> str:
        """What the run is called."""
        return self.path.name

    @property
    def manifest(self) -> Manifest:
        """What the run is, as it was last written or read here."""
        return self._manifest

    @classmethod
    def create(cls, parent: Path, manifest: Manifest, scripts: Iterable[str] = ()) -> RunFolder:
        """A new folder in `parent`, which is made if need be; `manifest.run` becomes its name.

        `scripts` are files, found from the manifest's plan_folder, of which copies are kept.

        The name is the start in UTC, the plan's name and four random digits:
        `20261120T101500Z-quick-3f9a`. Raises StoreError.
        """
        with storing("make a run folder in", parent):
            parent.mkdir(parents=True, exist_ok=True)
            path = _free_name(parent, manifest)
            # nobody lists it before it has a manifest
            partial = partial_path(parent, path.name)
            # logs of servers and commands are not for everybody on the host; whoever shares runs opens them
            partial.mkdir(0o700)
            try:
                (partial / TRIALS).mkdir()
                kept = keep_scripts(partial, Path(manifest.plan_folder or ""), scripts)
                folder = cls(partial, manifest.model_copy(update={"run": path.name, "scripts": kept}))
                folder._write_manifest()
                partial.rename(path)
                sync(parent)
            except BaseException:
                shutil.rmtree(partial, ignore_errors=True)
                raise
        folder.path, folder.location = path, str(path)
        return folder

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """The run folder at `path`. Raises StoreError when it is none, is broken, or is of a newer format."""
        if not path.is_dir():
            raise StoreError(f"cannot read the run {path}: there is no such folder")
        if not (path / MANIFEST).exists() and not (path / MANIFEST).is_symlink():
            raise StoreError(f"cannot read the run {path}: it has no {MANIFEST}", hint="this is not a run folder")
        # "." has no name of its own
        return cls(path.resolve(), _read_record(path / MANIFEST, Manifest))

    def update_manifest(self, **changes: object) -> Manifest:
        """Replaces fields of the manifest, on disk at one instant. Raises StoreError; ValueError for no such field."""
        unknown = changes.keys() - Manifest.model_fields.keys()
        if unknown:
            raise ValueError(f"a manifest has no {', '.join(sorted(unknown))}")
        self._manifest = Manifest.model_validate({**dict(self._manifest), **changes})
        self._write_manifest()
        return self._manifest

    def begin_trial(self, slug: str) -> TrialWriter:
        """A writer for the trial `slug`. Raises StoreError when there is such a trial already."""
        return TrialWriter(self.path, slug)

    @property
    def trials_path(self) -> Path:
        """Folder of the trials that are whole."""
        return self.path / TRIALS

    def trial_paths(self) -> list[Path]:
        """Folders of the trials that are whole, in the order of their numbers. Raises StoreError."""
        with storing("list", self.trials_path):
            if self.trials_path.is_symlink():
                raise StoreError(f"cannot read {self.trials_path}: it is a symbolic link", hint=NO_LINKS)
            if not self.trials_path.exists():
                return []
            return sorted(path for path in self.trials_path.iterdir() if _is_trial(path))

    def trials(self) -> list[TrialRecord]:
        """Records of the trials that are whole, by number. Raises StoreError when one cannot be read."""
        records = [_read_trial(path) for path in self.trial_paths()]
        records.sort(key=lambda record: record.number)
        for first, second in pairwise(records):
            if first.number == second.number:
                raise StoreError(
                    f"cannot read the run {self.path}: {first.slug} and {second.slug} are both trial {first.number}",
                    hint="remove the one that does not belong to the run",
                )
        return records

    def partials(self) -> list[str]:
        """Slugs of trials that were begun and never committed: one in flight, or what a killed run left."""
        with storing("list", self.path):
            found = [path.name for path in self.path.glob(".*.partial") if path.is_dir()]
        return sorted(name.removeprefix(".").removesuffix(".partial") for name in found)

    def remove_partials(self) -> list[str]:
        """Removes what a killed run left of trials; gives back their slugs. Raises StoreError."""
        slugs = self.partials()
        for slug in slugs:
            with storing("remove", partial_path(self.path, slug)):
                shutil.rmtree(partial_path(self.path, slug))
        return slugs

    def set_aside(self, slug: str) -> Path:
        """Moves a whole trial out of `trials/`, to make room for another go at it. Raises StoreError."""
        folder = self.path / SET_ASIDE
        with storing("move", self.trials_path / slug):
            folder.mkdir(exist_ok=True)
            number = 1 + sum(1 for path in folder.iterdir() if path.name.rpartition(".")[0] == slug)
            path = (self.trials_path / slug).rename(folder / f"{slug}.{number}")
            for changed in (folder, self.trials_path, self.path):
                sync(changed)
        return path

    def locked(self) -> AbstractContextManager[None]:
        """Keeps every other pgdyno from going on with this run. Raises StoreError when one does."""
        return run_lock(self.path)

    def _write_manifest(self) -> None:
        path = self.path / MANIFEST
        with storing("write", path):
            replace_durably(path, (self._manifest.model_dump_json(indent=2) + "\n").encode())


def _free_name(parent: Path, manifest: Manifest) -> Path:
    started = manifest.started_at.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
    plan = manifest.plan.get("name", "run")
    for _ in range(_ATTEMPTS):
        path = parent / f"{started}-{plan}-{secrets.token_hex(2)}"
        if not path.exists() and not partial_path(parent, path.name).exists():
            return path
    raise StoreError(f"cannot make a run folder in {parent}: every name that was tried is taken")


def _is_trial(path: Path) -> bool:
    """Whether `path` is a folder of its own: a link may name any folder of this machine."""
    return path.name[0] != "." and path.is_dir() and not path.is_symlink()


def _read_trial(path: Path) -> TrialRecord:
    record = _read_record(path / RECORD, TrialRecord)
    # the folder is where the record was found, whatever it says
    return record if record.slug == path.name else record.model_copy(update={"slug": path.name})


def _read_record(path: Path, model: type[_R]) -> _R:
    content = read_record(path)
    try:
        data = parsed(content)
        if not isinstance(data, dict):
            raise ValueError("it is no object")
        _check_format(path, data)
        return model.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        at = ".".join(str(part) for part in first["loc"])
        raise StoreError(f"cannot read {path}: {at}: {first['msg'].lower()}", hint=DAMAGED) from error
    except ValueError as error:
        raise StoreError(f"cannot read {path}: it is not JSON: {error}", hint=DAMAGED) from error


def _check_format(path: Path, data: dict[str, Any]) -> None:
    written = data.get("format")
    if isinstance(written, int) and written > FORMAT:
        needed = data.get("pgdyno")
        raise StoreError(
            f"cannot read {path}: it is of format {written}, and pgdyno {__version__} reads up to {FORMAT}",
            hint=f"use pgdyno {needed} or newer" if needed else "use a newer pgdyno",
        )
