"""Checks reset.snapshot against the folders in the plan; `doctor` checks the home."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from pgdyno.errors import Problem
from pgdyno.mounts import mounted_at
from pgdyno.plan.document import Document
from pgdyno.plan.model import Reset
from pgdyno.plan.own_checks import TMPFS
from pgdyno.plan.snapshot_words import FILE_SYSTEMS, NO_REFLINK, PROGRAMS, SnapshotWay
from pgdyno.plan.targets import OwnTarget, TargetSpec

_PATH = ("reset", "snapshot")


def check_snapshot(reset: Reset, targets: Mapping[str, TargetSpec], document: Document) -> Iterator[Problem]:
    """Yields what prevents the plan's snapshot method."""
    way = reset.snapshot
    if way is None:
        return
    if reset.method != "snapshot":
        yield document.problem(_PATH, 'goes only with method = "snapshot"', "remove it")
        return
    program = PROGRAMS.get(way)
    if program is not None and shutil.which(program) is None:
        yield document.problem(_PATH, f"program {program} is not on the PATH", "install it, or remove this key")
    for name, target in targets.items():
        reason = _refusal(way, target) if isinstance(target, OwnTarget) else None
        if reason is not None:
            yield document.problem(_PATH, f'"{way}" cannot be had for target {name}: {reason}', "remove it")


def _refusal(way: SnapshotWay, target: OwnTarget) -> str | None:
    if way == "zfs" and target.keep_data:
        return "its cluster is kept (keep_data), and the dataset would never be destroyed"
    data = target.environment.data
    if data is None:
        return None
    if data == TMPFS:
        return None if way == "copy" else "its cluster is in memory (environment.data)"
    return folder_refusal(way, Path(data).expanduser())


def folder_refusal(way: SnapshotWay, folder: Path) -> str | None:
    """Returns why the file system of `folder` prevents this method; None if nothing is known."""
    mount = mounted_at(folder)
    if mount is None:
        return None
    wanted = FILE_SYSTEMS.get(way)
    if wanted not in (None, mount.kind):
        return f"{folder} is on {mount.kind}"
    if way == "reflink" and mount.kind in NO_REFLINK:
        return f"{folder} is on {mount.kind}, where files cannot share blocks"
    return None
