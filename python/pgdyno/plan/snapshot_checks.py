"""reset.snapshot against the folders that the plan names; those of the home are looked at by the doctor."""

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
    """Everything that is in the way of the way that the plan asks for."""
    way = reset.snapshot
    if way is None:
        return
    if reset.method != "snapshot":
        yield document.problem(_PATH, 'goes only with method = "snapshot"', "remove it")
        return
    program = PROGRAMS.get(way)
    if program is not None and shutil.which(program) is None:
        yield document.problem(_PATH, f"there is no program {program} on the PATH", "install it, or leave this out")
    for name, target in targets.items():
        reason = _refusal(way, target) if isinstance(target, OwnTarget) else None
        if reason is not None:
            yield document.problem(_PATH, f'"{way}" cannot be had for target {name}: {reason}', "leave it out")


def _refusal(way: SnapshotWay, target: OwnTarget) -> str | None:
    if way == "zfs" and target.keep_data:
        return "its cluster is kept (keep_data), and would leave a dataset behind that nobody destroys"
    data = target.environment.data
    if data is None:
        return None
    if data == TMPFS:
        return None if way == "copy" else "its cluster lies in memory (environment.data)"
    return folder_refusal(way, Path(data).expanduser())


def folder_refusal(way: SnapshotWay, folder: Path) -> str | None:
    """Why a cluster in `folder` cannot be kept this way, by the file system alone; None when nothing is known."""
    mount = mounted_at(folder)
    if mount is None:
        return None
    wanted = FILE_SYSTEMS.get(way)
    if wanted not in (None, mount.kind):
        return f"{folder} lies on {mount.kind}"
    if way == "reflink" and mount.kind in NO_REFLINK:
        return f"{folder} lies on {mount.kind}, where files share no blocks"
    return None
