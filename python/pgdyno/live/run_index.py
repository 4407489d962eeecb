"""The runs of a folder: read once, and read again when changed."""

import hashlib
import json
import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import platformdirs

from pgdyno import __version__
from pgdyno.publish.run_entry import Entry, read_entry
from pgdyno.store.find_runs import REPORT
from pgdyno.store.run_folder import MANIFEST, TRIALS
from pgdyno.store.safe_files import store_errors

Key = tuple[int, ...]
"""Time and size of a manifest, times of the trials' folder and of the report: while unchanged, the entry is valid."""
Keyed = tuple[Key, Entry]
FORMAT = 4


def key_of(run: str) -> Key | None:
    """Return the key of the run in the folder `run`; None for a folder without a run. Raises OSError."""
    try:
        manifest = os.lstat(f"{run}/{MANIFEST}")  # a Path for each of thousands would double the time
    except (FileNotFoundError, NotADirectoryError):
        return None
    times = []
    for name in (TRIALS, REPORT):
        try:
            times.append(os.lstat(f"{run}/{name}").st_mtime_ns)
        except FileNotFoundError:
            times.append(0)
    return manifest.st_mtime_ns, manifest.st_size, *times


class Index:
    """The runs of one folder, cached in the user's cache folder between two servers."""

    def __init__(self, parent: Path, file: Path | None = None) -> None:
        """`file` stores the entries, by default in the user's cache folder."""
        self.parent = parent.resolve()
        self._file = file or _cache_file(self.parent)
        self._entries: dict[str, Keyed] | None = None
        # requests come from several threads
        self._lock = threading.Lock()

    def keyed_runs(self) -> dict[str, Keyed]:
        """Return every run with its key, by name. Raises StoreError."""
        with self._lock:
            before = self._load() if self._entries is None else self._entries
            now = self._look(before)
            if now != before:
                self._save(now)
            self._entries = now
        return now

    def runs(self) -> list[Entry]:
        """Return every run, newest first; a folder that does not exist has none. Raises StoreError."""
        entries = [entry for _, entry in self.keyed_runs().values()]
        return sorted(entries, key=lambda each: (str(each.started_at or ""), each.name), reverse=True)

    def path(self, name: str) -> Path:
        return self.parent / name

    def _look(self, before: Mapping[str, Keyed]) -> dict[str, Keyed]:
        now: dict[str, Keyed] = {}
        with store_errors("list the runs in", self.parent):
            if not self.parent.exists():
                return {}
            with os.scandir(self.parent) as found:
                folders = [each for each in found if not each.name.startswith(".")]
            for each in folders:
                try:
                    key = key_of(each.path) if each.is_dir() else None
                except OSError as error:
                    # circular links, a folder of another user: one row fails, not the whole list
                    now[each.name] = (), Entry(name=each.name, problem=f"cannot read it: {error.strerror}")
                    continue
                if key is not None:
                    known = before.get(each.name)
                    now[each.name] = known if known and known[0] == key else (key, read_entry(Path(each.path)))
        return now

    def _load(self) -> dict[str, Keyed]:
        try:
            kept = json.loads(self._file.read_bytes())
            if kept["made_by"] != _made_by():
                return {}
            entries = [(tuple(map(int, key)), Entry.model_validate(entry)) for key, entry in kept["runs"]]
        except (OSError, ValueError, KeyError, TypeError):
            return {}
        return {entry.name: (key, entry) for key, entry in entries}

    def _save(self, entries: Mapping[str, Keyed]) -> None:
        partial = self._file.with_name(f"{self._file.name}.{os.getpid()}")
        runs = [(key, entry.model_dump(mode="json")) for key, entry in entries.values()]
        # without a cache, the next server reads everything again
        with suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            partial.write_text(json.dumps({"made_by": _made_by(), "runs": runs}), encoding="utf-8")
            partial.replace(self._file)


def _made_by() -> list[object]:
    return [FORMAT, __version__]


def _cache_file(parent: Path) -> Path:
    home = os.environ.get("PGDYNO_HOME") or platformdirs.user_cache_dir("pgdyno")
    digest = hashlib.sha256(os.fsencode(parent)).hexdigest()[:16]
    return Path(home).expanduser() / "archive" / f"{digest}.json"
