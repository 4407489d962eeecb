"""The runs of a folder: read once, read again when changed, and searched."""

from __future__ import annotations

import hashlib
import json
import math
import os
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

import platformdirs

from pgdyno import __version__
from pgdyno.errors import StoreError, UsageError
from pgdyno.fingerprint import fingerprint_of
from pgdyno.records import Manifest, Outcome, TrialRecord
from pgdyno.store import RunFolder
from pgdyno.store.find_runs import REPORT, read_answer
from pgdyno.store.run_folder import MANIFEST, TRIALS
from pgdyno.store.safe_files import storing

Key = tuple[int, int, int, int]
"""Time and size of a manifest, times of the trials' folder and of the report: while unchanged, the entry is valid."""


@dataclass(frozen=True, slots=True)
class Entry:
    name: str
    key: Key
    plan: str = ""
    workload: str = ""
    targets: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()
    """As the servers reported them; empty before they have started."""
    started_at: str = ""
    """ISO 8601, UTC; for an imported run, the time of the import."""
    outcome: str | None = None
    """None while the run is in progress, or if it was killed."""
    ended: bool = False
    trials: int = 0
    planned: int = 0
    answer: str = ""
    """The answer of the run's report; empty without a report."""
    peak_tps: float | None = None
    """Mean of the finished trials of the point at which it is highest: a single trial may have been lucky."""
    peak_clients: int | None = None
    p99_ns: float | None = None
    """p99 of the trial with median throughput at that point."""
    fingerprint: str = ""
    """Equal for runs with the same machine, workload and reset; empty for a run without a fingerprint."""
    words: str = ""
    """Further search words, in lower case: machine, kernel, settings, notes."""
    problem: str | None = None
    """Why it cannot be read."""

    @property
    def found_by(self) -> str:
        """Return all searchable text, in lower case."""
        said = (
            self.name,
            self.plan,
            self.workload,
            *self.targets,
            *self.versions,
            self.fingerprint,
            self.outcome or "",
            self.answer,
        )
        return " ".join(said).lower() + " " + self.words


def key_of(run: str) -> Key | None:
    """Return the key of the run at the path `run`; None if there is none. Raises OSError for other errors."""
    try:
        manifest = os.lstat(f"{run}/{MANIFEST}")  # a Path for each of thousands would double the time
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        trials_ns = os.stat(f"{run}/{TRIALS}").st_mtime_ns  # noqa: PTH116
    except FileNotFoundError:
        trials_ns = 0
    try:
        report_ns = os.lstat(f"{run}/{REPORT}").st_mtime_ns
    except FileNotFoundError:
        report_ns = 0
    return manifest.st_mtime_ns, manifest.st_size, trials_ns, report_ns


def read_entry(path: Path, key: Key) -> Entry:
    """Read the run at `path`; an unreadable one has the reason."""
    try:
        folder = RunFolder.open(path)
        return _entry(path.name, key, folder.manifest, folder.trials(), read_answer(path))
    except StoreError as error:
        return Entry(path.name, key, problem=error.message)


def _entry(name: str, key: Key, manifest: Manifest, trials: list[TrialRecord], answer: str = "") -> Entry:
    points: dict[tuple[str, str], list[tuple[float, TrialRecord]]] = {}
    for each in trials:
        if each.outcome is Outcome.FINISHED and each.summary is not None and each.summary.rate_tps is not None:
            of = points.setdefault((each.target, each.point.model_dump_json()), [])
            of.append((each.summary.tps, each))
    best = max(points.values(), key=lambda of: math.fsum(tps for tps, _ in of) / len(of), default=[])
    median = sorted(best, key=lambda each: each[0])[(len(best) - 1) // 2][1] if best else None
    latency = median.summary.latency_ns if median is not None and median.summary is not None else None
    versions = [target.facts.version for target in manifest.targets if target.facts]
    return Entry(
        name=name,
        key=key,
        plan=str(manifest.plan.get("name") or ""),
        workload=manifest.workload,
        targets=tuple(target.name for target in manifest.targets),
        versions=tuple(dict.fromkeys(versions)),
        started_at=manifest.started_at.isoformat(),
        outcome=manifest.outcome.value if manifest.outcome else None,
        ended=manifest.ended_at is not None,
        trials=len(trials),
        planned=manifest.trials_planned,
        answer=answer,
        peak_tps=math.fsum(tps for tps, _ in best) / len(best) if best else None,
        peak_clients=median.point.clients if median is not None else None,
        p99_ns=latency.p99 if latency else None,
        fingerprint=fingerprint_of(manifest.fingerprint),
        words=_words(manifest),
    )


def _words(manifest: Manifest) -> str:
    said: list[object] = [manifest.plan_source, *manifest.shown_notes]
    if manifest.host is not None:
        said += [manifest.host.cpu_model, manifest.host.os, manifest.host.kernel, manifest.host.architecture]
    for target in manifest.targets:
        said.append(target.kind)
        if target.facts is not None:
            said += [f"{name}={value}" for name, value in target.facts.settings_changed.items()]
    return " ".join(map(str, said)).lower()


def as_json(entry: Entry) -> dict[str, Any]:
    return {name: getattr(entry, name) for name in Entry.__slots__}


def from_json(value: dict[str, Any]) -> Entry:
    known = {name: value[name] for name in Entry.__slots__}
    key = tuple(int(each) for each in known["key"])
    lists = {"targets": tuple(known["targets"]), "versions": tuple(known["versions"])}
    return Entry(**{**known, **lists, "key": (key[0], key[1], key[2], key[3])})


FORMAT = 3
UNREADABLE = (0, 0, 0, 0)
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


@dataclass(frozen=True, slots=True)
class Search:
    """A search; empty fields match everything."""

    text: str = ""
    """Words that must all occur: in names, machine, settings, notes."""
    workload: str = ""
    version: str = ""
    """A server version, or its beginning up to a point: 18 matches any 18."""
    fingerprint: str = ""
    since: str = ""
    """A date, as YYYY-MM-DD in UTC, inclusive."""
    until: str = ""

    @classmethod
    def of(cls, asked: Mapping[str, str]) -> Search:
        """Parse the parameters of an address. Raises UsageError for an invalid date."""
        search = cls(
            text=asked.get("q", "").strip(),
            workload=asked.get("workload", ""),
            version=asked.get("version", ""),
            fingerprint=asked.get("fingerprint", "").strip().lower(),
            since=asked.get("since", "").strip(),
            until=asked.get("until", "").strip(),
        )
        _day(search.since)
        _day(search.until)
        return search

    def found(self, entries: Iterable[Entry]) -> list[Entry]:
        """Return matching `entries` in order."""
        words = self.text.lower().split()
        since, until = _day(self.since), _day(self.until)
        return [each for each in entries if self._fits(each, words) and _is_within(each, since, until)]

    def _fits(self, entry: Entry, words: list[str]) -> bool:
        if self.workload and entry.workload != self.workload:
            return False
        if self.version and not any(f"{each}.".startswith(f"{self.version}.") for each in entry.versions):
            return False
        if not entry.fingerprint.startswith(self.fingerprint):
            return False
        found_by = entry.found_by if words else ""
        return all(word in found_by for word in words)


def _is_within(entry: Entry, since: date | None, until: date | None) -> bool:
    if since is None and until is None:
        return True
    began = datetime.fromisoformat(entry.started_at) if entry.started_at else None
    if began is None:
        return False
    day = began.date()
    return (since is None or day >= since) and (until is None or day <= until)


def _day(text: str) -> date | None:
    if not text:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"{text!r} is not a date", hint="write it as 2026-11-21") from error
