"""The archive's cached summary of a run."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pgdyno.errors import StoreError
from pgdyno.fingerprint import fingerprint_of
from pgdyno.records import Manifest, Outcome, TrialRecord
from pgdyno.store import RunFolder
from pgdyno.store.folder import MANIFEST, TRIALS

Key = tuple[int, int, int]
"""Time and size of a manifest, time of the folder of trials: as long as these are unchanged, the entry is valid."""


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
    peak_tps: float | None = None
    """Highest throughput of a finished trial."""
    peak_clients: int | None = None
    p99_ns: float | None = None
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
    return manifest.st_mtime_ns, manifest.st_size, trials_ns


def read_entry(path: Path, key: Key) -> Entry:
    """Read the run at `path`; an unreadable one has the reason."""
    try:
        folder = RunFolder.open(path)
        return _entry(path.name, key, folder.manifest, folder.trials())
    except StoreError as error:
        return Entry(path.name, key, problem=error.message)


def _entry(name: str, key: Key, manifest: Manifest, trials: list[TrialRecord]) -> Entry:
    results = [each for each in trials if each.outcome is Outcome.FINISHED and each.summary is not None]
    best = max(results, key=lambda each: each.summary.tps if each.summary else 0.0, default=None)
    summary = best.summary if best else None
    latency = summary.latency_ns if summary else None
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
        peak_tps=summary.tps if summary else None,
        peak_clients=best.point.clients if best else None,
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


def started(entry: Entry) -> datetime | None:
    """Return the start of the run, if known."""
    return datetime.fromisoformat(entry.started_at) if entry.started_at else None


def as_json(entry: Entry) -> dict[str, Any]:
    return {name: getattr(entry, name) for name in Entry.__slots__}


def from_json(value: dict[str, Any]) -> Entry:
    known = {name: value[name] for name in Entry.__slots__}
    manifest_ns, size, trials_ns = known["key"]
    lists = {"targets": tuple(known["targets"]), "versions": tuple(known["versions"])}
    return Entry(**{**known, **lists, "key": (int(manifest_ns), int(size), int(trials_ns))})
