"""The runs of a folder, cached: an entry is read again only if its run has changed."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import platformdirs

from pgdyno import __version__
from pgdyno.live.entry import Entry, as_json, from_json, key_of, read_entry
from pgdyno.store.storing import storing

FORMAT = 2
UNREADABLE = (0, 0, 0)
"""Key of an unreadable run."""


class Index:
    """The runs of one folder, cached in the user's cache folder between two servers."""

    def __init__(self, parent: Path, file: Path | None = None) -> None:
        """`file` stores the entries, by default in the user's cache folder."""
        self.parent = parent.resolve()
        self._file = file or _cache_file(self.parent)
        self._entries: dict[str, Entry] | None = None
        # requests come from several threads
        self._lock = threading.Lock()

    def runs(self) -> list[Entry]:
        """Return every run, newest first; a folder that does not exist has none. Raises StoreError."""
        with self._lock:
            before = self._load() if self._entries is None else self._entries
            now = self._look(before)
            if now != before:
                self._save(now)
            self._entries = now
        return sorted(now.values(), key=lambda each: (each.started_at, each.name), reverse=True)

    def get(self, name: str) -> Entry | None:
        """Return the current entry of the run `name`; None if the folder has no such run. Raises StoreError."""
        return next((each for each in self.runs() if each.name == name), None)

    def path(self, name: str) -> Path:
        return self.parent / name

    def _look(self, before: Mapping[str, Entry]) -> dict[str, Entry]:
        now = {}
        with storing("list the runs in", self.parent):
            if not self.parent.exists():
                return {}
            with os.scandir(self.parent) as found:
                folders = [each for each in found if not each.name.startswith(".")]
            for each in folders:
                try:
                    key = key_of(each.path) if each.is_dir() else None
                except OSError as error:
                    # circular links, a folder of another user: one row fails, not the whole list
                    now[each.name] = Entry(each.name, UNREADABLE, problem=f"cannot read it: {error.strerror}")
                    continue
                if key is not None:
                    known = before.get(each.name)
                    now[each.name] = known if known and known.key == key else read_entry(Path(each.path), key)
        return now

    def _load(self) -> dict[str, Entry]:
        """Load the entries of an earlier server; nothing if they are of another version, or damaged."""
        try:
            kept = json.loads(self._file.read_bytes())
            if kept["made_by"] != _made_by():
                return {}
            entries = [from_json(each) for each in kept["runs"]]
        except (OSError, ValueError, KeyError, TypeError):
            return {}
        return {each.name: each for each in entries}

    def _save(self, entries: Mapping[str, Entry]) -> None:
        partial = self._file.with_name(f"{self._file.name}.{os.getpid()}")
        text = json.dumps({"made_by": _made_by(), "runs": [as_json(each) for each in entries.values()]})
        # without a cache, the next server reads everything again
        with suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            partial.write_text(text, encoding="utf-8")
            partial.replace(self._file)


def _made_by() -> list[object]:
    return [FORMAT, __version__]


def _cache_file(parent: Path) -> Path:
    home = os.environ.get("PGDYNO_HOME") or platformdirs.user_cache_dir("pgdyno")
    digest = hashlib.sha256(os.fsencode(parent)).hexdigest()[:16]
    return Path(home).expanduser() / "archive" / f"{digest}.json"
