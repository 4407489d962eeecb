"""Run folders for tests of the archive: the records are invented, but the real code writes and reads them."""

import os
import shutil
from datetime import timedelta
from pathlib import Path

from pgdyno.records import Fingerprint, HostPrint, Manifest, ServerFacts, TargetRecord
from pgdyno.store import RunFolder
from tests.unit.events_sample import sample_events
from tests.unit.store_sample import STARTED, add_trial, sample_manifest

MARKUP = "<script>alert(1)</script>\"'&amp;"
"""Markup that must be shown literally in names and messages."""


def fingerprint(cpu_model: str = "Fast CPU", seed: int = 1) -> Fingerprint:
    host = HostPrint(
        cpu_model=cpu_model, cores=4, memory_bytes=8 << 30, architecture="x86_64", kernel="6.1", os="Debian 12"
    )
    return Fingerprint(host=host, pgdyno="0.1.0", pgdrive="0.1.0", generator="the same machine", seed=seed)


def run_of(parent: Path, *, hours: int = 0, tps: float = 500, version: str = "18.6", **changes: object) -> RunFolder:
    """Returns a finished run of two trials at 4 clients, `hours` after the first of all runs."""
    facts = ServerFacts(
        version=version,
        version_full=f"PostgreSQL {version}",
        settings_changed={"shared_buffers": "16384"},
        data_checksums=True,
    )
    target = TargetRecord(name="pg", kind="embedded", asked={}, facts=facts)
    started = STARTED + timedelta(hours=hours)
    fields = {"targets": [target], "started_at": started, "fingerprint": fingerprint(), **changes}
    folder = RunFolder.create(parent, sample_manifest(**fields))
    for number in (1, 2):
        add_trial(folder, number, sample_events(4, 2, tps + number, 900, seed=number), target="pg")
    folder.update_manifest(ended_at=started + timedelta(minutes=5), outcome="finished")
    return folder


def many_runs(parent: Path, number: int, *, first: int = 0, like: RunFolder | None = None) -> list[str]:
    """Writes `number` runs with different times, names and versions; returns their names, newest first.

    The oldest started `first` hours after the first of all runs. `like` is the run to copy, and is removed.
    """
    pattern = like or run_of(parent / ".pattern")
    names = []
    for at in range(first, first + number):
        started = STARTED + timedelta(hours=at)
        name = f"{started:%Y%m%dT%H%M%SZ}-quick-{at:04x}"
        shutil.copytree(pattern.path, parent / name, copy_function=os.link)
        (parent / name / "manifest.json").unlink()
        targets = [_of_version(each, f"{10 + at % 9}.1") for each in pattern.manifest.targets]
        manifest = pattern.manifest.model_copy(update={"run": name, "started_at": started, "targets": targets})
        (parent / name / "manifest.json").write_text(Manifest.model_dump_json(manifest))
        names.append(name)
    shutil.rmtree(pattern.path)
    return names[::-1]


def _of_version(target: TargetRecord, version: str) -> TargetRecord:
    assert target.facts is not None
    return target.model_copy(update={"facts": target.facts.model_copy(update={"version": version})})
