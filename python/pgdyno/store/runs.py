"""Lists the runs of a folder, and finds one by the user's text."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path

from pgdyno.errors import StoreError, UsageError
from pgdyno.records import Manifest
from pgdyno.store.folder import MANIFEST, RunFolder
from pgdyno.store.remote.address import is_remote
from pgdyno.store.remote.borrowed import borrowed
from pgdyno.store.storing import storing

LATEST = "latest"


@dataclass(frozen=True, slots=True)
class RunEntry:
    """A folder among the runs."""

    name: str
    path: Path
    manifest: Manifest | None
    """None if it cannot be read."""
    trials_done: int
    problem: str | None = None
    """Why it cannot be read."""

    @property
    def started_at(self) -> datetime:
        """Return the start of the run; from its name if the manifest lacks it, else the earliest time."""
        if self.manifest is not None:
            return self.manifest.started_at
        try:
            return datetime.strptime(self.name.split("-", 1)[0], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        except ValueError:
            return datetime.min.replace(tzinfo=UTC)


def list_runs(parent: Path) -> list[RunEntry]:
    """Return every folder in `parent`, newest first; an unreadable one has the reason.

    A parent that does not exist has no runs. Raises StoreError if it cannot be listed.
    """
    if not parent.exists() and not parent.is_symlink():
        return []
    with storing("list the runs in", parent):
        paths = [path for path in parent.iterdir() if path.is_dir() and not path.name.startswith(".")]
    return sorted((_entry(path) for path in paths), key=lambda entry: (entry.started_at, entry.name), reverse=True)


def _entry(path: Path) -> RunEntry:
    try:
        folder = RunFolder.open(path)
        return RunEntry(path.name, path, folder.manifest, len(folder.trial_paths()))
    except StoreError as error:
        return RunEntry(path.name, path, None, 0, error.message)


def find_run(text: str, parent: Path) -> RunFolder:
    """Return the run that `text` names: a path, a name in `parent`, a unique prefix of a name, or `latest`.

    A run on object storage is downloaded, and removed when this process ends.

    Raises UsageError for an ambiguous prefix, StoreError if there is none or it cannot be read.
    """
    if is_remote(text):
        return borrowed(text)
    # try a path first, because it is unambiguous
    if "/" in text or (Path(text) / MANIFEST).is_file():
        return RunFolder.open(Path(text).expanduser())
    runs = list_runs(parent)
    if text == LATEST:
        if not runs:
            raise StoreError(f"there are no runs in {parent}", hint="pgdyno run quick makes one")
        return RunFolder.open(runs[0].path)
    matches = [run for run in runs if run.name == text] or [run for run in runs if text and run.name.startswith(text)]
    if len(matches) > 1:
        names = ", ".join(run.name for run in matches[:5]) + (", ..." if len(matches) > 5 else "")
        raise UsageError(f"{text} may be {len(matches)} runs: {names}", hint="type more of the name")
    if not matches:
        close = get_close_matches(text, [run.name for run in runs], n=1)
        hint = f"did you mean {close[0]}?" if close else "pgdyno list shows what there is"
        raise StoreError(f"there is no run {text} in {parent}", hint=hint)
    return RunFolder.open(matches[0].path)
