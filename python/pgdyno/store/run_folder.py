"""One run folder, its lock, and its copies of the plan's scripts."""

from __future__ import annotations

import hashlib
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC
from difflib import unified_diff
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgdyno import records
from pgdyno.errors import StoreError
from pgdyno.messages import Message
from pgdyno.store.safe_files import (
    NO_LINKS,
    open_regular,
    read_model,
    replace_durably,
    store_errors,
    sync,
    write_durably,
)

if TYPE_CHECKING:
    from pgdyno.records import KeptScript, Manifest, TrialRecord
    from pgdyno.store.trial_writer import TrialWriter

RECORD = "trial.json"
LOCK = ".lock"
"""It remains in the folder: if it were removed, two processes could hold it."""


SPOOL = "events"
"""Name of the spool in which a partial folder has the events of the trial's engine."""
LEAST_KEPT_S = 60
"""Seconds that a trial must have measured to be worth keeping if it does not end; a shorter one is soon repeated."""


def partial_path(run: Path, slug: str) -> Path:
    """Return the folder in which the trial `slug` is gathered."""
    return run / f".{slug}.partial"


def is_worth_keeping(partial: Path) -> bool:
    """Return whether the trial gathered in `partial` has measured for `LEAST_KEPT_S`. Raises OSError."""
    spool = partial / f"{SPOOL}.jsonl"
    if not spool.is_file():
        return False
    with spool.open("rb") as file:
        # each is a second; in the text of a statement the quotes would be escaped
        return sum(b'"phase":"measure"' in line for line in file) >= LEAST_KEPT_S


FOLDER = "scripts"
DIFF_LINES = 12
"""Displayed lines of a difference."""


def keep_scripts(run: Path, plan_folder: Path, names: Iterable[str]) -> list[KeptScript]:
    """Copy the files `names`, relative to `plan_folder`, into the run folder. Raises StoreError."""
    kept = []
    for number, name in enumerate(dict.fromkeys(names), start=1):
        with store_errors("read", plan_folder / name):
            content = (plan_folder / name).read_bytes()
        # two files of different folders may have the same name
        copy = f"{FOLDER}/{number}-{Path(name).name}"
        with store_errors("write", run / copy):
            (run / FOLDER).mkdir(exist_ok=True)
            write_durably(run / copy, content)
        kept.append(records.KeptScript(name=name, kept=copy, sha256=hashlib.sha256(content).hexdigest()))
    if kept:
        with store_errors("write", run / FOLDER):
            sync(run / FOLDER)
    return kept


def kept_text(run: Path, script: KeptScript) -> str:
    """Return the text of a script as of the start of the run in the folder `run`. Raises StoreError."""
    path = run / FOLDER / Path(script.kept).name
    with store_errors("read", path), open_regular(path) as file:
        return file.read().decode("utf-8", "replace")


def changed_script(run: Path, plan_folder: Path, kept: Sequence[KeptScript]) -> Message | None:
    """Return what has changed since the start of the run, with the difference; None if nothing has."""
    for script in kept:
        path = plan_folder / script.name
        try:
            now = path.read_bytes()
        except OSError as error:
            return Message(
                "script-unreadable",
                "the script {script} can no longer be read: {why}",
                script=str(path),
                why=(error.strerror or str(error)).lower(),
            )
        if hashlib.sha256(now).hexdigest() != script.sha256:
            # the manifest may name a path outside the run folder
            kept_here = run / FOLDER / Path(script.kept).name
            return Message(
                "script-changed",
                "the script {script} has changed since the run began:\n{difference}",
                script=str(path),
                difference=_difference(kept_here, now),
            )
    return None


def _difference(kept: Path, now: bytes) -> str:
    with store_errors("read", kept):
        before = kept.read_bytes()
    old, new = (content.decode("utf-8", "replace").splitlines() for content in (before, now))
    lines = list(islice(unified_diff(old, new, "then", "now", n=1, lineterm=""), DIFF_LINES + 1))
    if len(lines) > DIFF_LINES:
        lines[-1] = "..."
    return "\n".join(f"    {line}" for line in lines) or "    white space at the ends of its lines"


MANIFEST = "manifest.json"
TRIALS = "trials"
ATTEMPT = ".attempt"
"""Among runs: the plan that was asked for last, if that made no run."""
SET_ASIDE = "set-aside"
"""The folder of trials that were repeated: failed ones, and what ones that did not end had measured."""
_ATTEMPTS = 20


class RunFolder:
    """A folder with a manifest and the completed trials."""

    def __init__(self, path: Path, manifest: Manifest) -> None:
        """Use `create` or `open` instead."""
        self.path = path
        self._manifest = manifest
        self.location = str(path)
        """The path for users: for a fetched run, its address on object storage."""

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def manifest(self) -> Manifest:
        """Return the manifest as last written or read by this object."""
        return self._manifest

    @classmethod
    def create(
        cls,
        parent: Path,
        manifest: Manifest,
        scripts: Iterable[str] = (),
        captured: str | None = None,
        *,
        is_replayed: bool = False,
    ) -> RunFolder:
        """Create a folder in `parent`, and `parent` if necessary; `manifest.run` becomes its name.

        `scripts` are files, relative to the manifest's plan_folder, of which copies are kept, and so is
        the capture.json of `captured` (see `keep_capture`). The name is the start in UTC, the plan's name and four
        random digits: `20261120T101500Z-quick-3f9a`. Raises StoreError.
        """
        with store_errors("make a run folder in", parent):
            parent.mkdir(parents=True, exist_ok=True)
            path = _free_name(parent, manifest)
            # listings ignore it until it has a manifest
            partial = partial_path(parent, path.name)
            # logs of servers and commands are private; users who share runs change the mode
            partial.mkdir(0o700)
            try:
                (partial / TRIALS).mkdir()
                plan_folder = Path(manifest.plan_folder or "")
                changes: dict[str, object] = {"run": path.name}
                changes["scripts"] = keep_scripts(partial, plan_folder, scripts)
                if captured is not None:
                    from pgdyno.store.kept_capture import keep_capture

                    changes["capture"] = keep_capture(partial, plan_folder, captured, is_replayed=is_replayed)
                folder = cls(partial, manifest.model_copy(update=changes))
                folder._write_manifest()
                partial.rename(path)
                (parent / ATTEMPT).unlink(missing_ok=True)
                sync(parent)
            except BaseException:
                shutil.rmtree(partial, ignore_errors=True)
                raise
        folder.path, folder.location = path, str(path)
        return folder

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Open the run folder at `path`. Raises StoreError if it is not one, is broken, or has a newer format."""
        with store_errors("read the run", path, None):
            if not path.is_dir():
                raise StoreError(f"cannot read the run {path}: there is no such folder")
            if not (path / MANIFEST).exists() and not (path / MANIFEST).is_symlink():
                raise StoreError(f"cannot read the run {path}: it has no {MANIFEST}", hint="this is not a run folder")
        # "." has no name
        return cls(path.resolve(), read_model(path / MANIFEST, records.Manifest, _check_format))

    def update_manifest(self, **changes: object) -> Manifest:
        """Replace fields of the manifest atomically on disk. Raises StoreError; ValueError for an unknown field."""
        unknown = changes.keys() - records.Manifest.model_fields.keys()
        if unknown:
            raise ValueError(f"a manifest has no {', '.join(sorted(unknown))}")
        self._manifest = records.Manifest.model_validate({**dict(self._manifest), **changes})
        self._write_manifest()
        return self._manifest

    def begin_trial(self, slug: str) -> TrialWriter:
        """Return a writer for the trial `slug`. Raises StoreError if the trial exists."""
        from pgdyno.store.trial_writer import TrialWriter

        return TrialWriter(self.path, slug)

    def replace_record(self, record: TrialRecord) -> None:
        """Replace the record of a completed trial atomically on disk. Raises StoreError."""
        path = self.trials_path / record.slug / RECORD
        with store_errors("write", path):
            replace_durably(path, (record.model_dump_json(indent=2) + "\n").encode())

    @property
    def trials_path(self) -> Path:
        return self.path / TRIALS

    def trial_paths(self) -> list[Path]:
        """Return the folders of the completed trials, in the order of their numbers. Raises StoreError."""
        return trial_folders(self.path)

    def trials(self) -> list[TrialRecord]:
        """Return the records of the completed trials, by number. Raises StoreError if one cannot be read."""
        found = sorted((_read_trial(path) for path in self.trial_paths()), key=lambda record: record.number)
        for first, second in pairwise(found):
            if first.number == second.number:
                raise StoreError(
                    f"cannot read the run {self.path}: {first.slug} and {second.slug} are both trial {first.number}",
                    hint="remove the one that does not belong to the run",
                )
        return found

    def partials(self) -> list[str]:
        """Return the slugs of trials that began and were never committed: one in flight, or those of a killed run."""
        with store_errors("list", self.path):
            found = [path.name for path in self.path.glob(".*.partial") if path.is_dir()]
        return sorted(name.removeprefix(".").removesuffix(".partial") for name in found)

    def clear_partials(self) -> tuple[list[str], list[str]]:
        """Set aside partial trials worth keeping, and remove the others; return their slugs. Raises StoreError."""
        kept, removed = [], []
        for slug in self.partials():
            partial = partial_path(self.path, slug)
            with store_errors("remove", partial):
                if is_worth_keeping(partial):
                    self._set_aside(partial, slug)
                    kept.append(slug)
                else:
                    shutil.rmtree(partial)
                    removed.append(slug)
        return kept, removed

    def set_aside(self, slug: str) -> Path:
        """Move a completed trial out of `trials/`, so that it can be repeated. Raises StoreError."""
        return self._set_aside(self.trials_path / slug, slug)

    def _set_aside(self, trial: Path, slug: str) -> Path:
        folder = self.path / SET_ASIDE
        with store_errors("move", trial):
            folder.mkdir(exist_ok=True)
            names = [path.name.rpartition(".") for path in folder.iterdir()]
            # users may have removed some
            number = 1 + max((int(last) for of, _, last in names if of == slug and last.isdecimal()), default=0)
            path = trial.rename(folder / f"{slug}.{number}")
            for changed in (folder, trial.parent, self.path):
                sync(changed)
        return path

    @contextmanager
    def hold_lock(self) -> Iterator[None]:
        """Prevent every other pgdyno from resuming this run; the lock ends with the process.

        Raises StoreError if another one works on it.
        """
        # imported here: most commands only read
        from filelock import FileLock, Timeout

        with store_errors("lock", self.path):
            lock = FileLock(self.path / LOCK, thread_local=False)
            try:
                lock.acquire(timeout=0)
            except Timeout:
                raise StoreError(
                    f"cannot resume the run {self.name}: another pgdyno works on it", hint="wait until it has ended"
                ) from None
        try:
            yield
        finally:
            lock.release()

    def _write_manifest(self) -> None:
        path = self.path / MANIFEST
        with store_errors("write", path):
            replace_durably(path, (self._manifest.model_dump_json(indent=2) + "\n").encode())


def _free_name(parent: Path, manifest: Manifest) -> Path:
    started = manifest.started_at.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
    plan = manifest.plan.get("name", "run")
    for _ in range(_ATTEMPTS):
        path = parent / f"{started}-{plan}-{secrets.token_hex(2)}"
        if not path.exists() and not partial_path(parent, path.name).exists():
            return path
    raise StoreError(f"cannot create a run folder in {parent}: every name tried already exists")


def trial_folders(run: Path) -> list[Path]:
    """Return the folders of the completed trials, in the order of their numbers. Raises StoreError."""
    trials = run / TRIALS
    with store_errors("list", trials):
        if trials.is_symlink():
            raise StoreError(f"cannot read {trials}: it is a symbolic link", hint=NO_LINKS)
        return sorted(path for path in trials.iterdir() if _is_trial(path)) if trials.exists() else []


def _is_trial(path: Path) -> bool:
    """Return whether `path` is a real folder: a link may name any folder of this machine."""
    return path.name[0] != "." and path.is_dir() and not path.is_symlink()


def _read_trial(path: Path) -> TrialRecord:
    record = read_model(path / RECORD, records.TrialRecord, _check_format)
    # the folder is where the record was found, whatever the record says
    return record if record.slug == path.name else record.model_copy(update={"slug": path.name})


def _is_newer(version: object) -> bool:
    def numbers(text: str) -> list[int]:
        return [int(part) for part in re.findall(r"\d+", text)]

    # imported here: looking the version up takes longer than reading a manifest
    from pgdyno import __version__

    return isinstance(version, str) and numbers(version) > numbers(__version__)


def _check_format(path: Path, data: dict[str, Any]) -> None:
    written = data.get("format")
    if isinstance(written, int) and written > records.FORMAT:
        from pgdyno import __version__

        needed = data.get("pgdyno") if _is_newer(data.get("pgdyno")) else None
        raise StoreError(
            f"cannot read {path}: it is of format {written}, and pgdyno {__version__} reads up to {records.FORMAT}",
            hint=f"use pgdyno {needed} or newer" if needed else "use a newer pgdyno",
        )
