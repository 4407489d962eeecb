"""Checks whether the dataset, the version and this machine support [reset]."""

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from pgdyno.errors import PlanError, Problem
from pgdyno.mounts import expand_home, mounted_at
from pgdyno.plan.checks.sections import Sections
from pgdyno.plan.checks.targets import Abilities, check_abilities
from pgdyno.plan.model import Plan, Reset
from pgdyno.plan.optional_sections import FILE_SYSTEMS, NO_REFLINK, SnapshotMethod
from pgdyno.plan.own_data.sql_dataset import SqlDataset
from pgdyno.plan.plan_document import Document, in_order
from pgdyno.plan.targets import TMPFS, NetworkTarget, OwnTarget, RentedTarget

_PATH = ("reset", "snapshot")


def _snapshot(reset: Reset, plan: Sections) -> Iterator[Problem]:
    method = reset.snapshot
    if method is None:
        return
    if reset.method != "snapshot":
        yield plan.problem(_PATH, 'is valid only with method = "snapshot"', "remove it")
        return
    # Btrfs and ZFS have a program of their name
    if method in FILE_SYSTEMS and shutil.which(method) is None:
        yield plan.problem(_PATH, f"program {method} is not on the PATH", "install it, or remove this key")
    for name, target in plan.targets.items():
        reason = _refusal(method, target) if isinstance(target, OwnTarget) else None
        if reason is not None:
            yield plan.problem(_PATH, f'"{method}" is not possible for target {name}: {reason}', "remove it")


def _refusal(method: SnapshotMethod, target: OwnTarget) -> str | None:
    if method == "zfs" and target.keep_data:
        return "its cluster is kept (keep_data), and the dataset would never be destroyed"
    data = target.environment.data
    if data is None:
        return None
    if data == TMPFS:
        return None if method == "copy" else "its cluster is in memory (environment.data)"
    return folder_refusal(method, expand_home(data))


def folder_refusal(method: SnapshotMethod, folder: Path) -> str | None:
    """Return why the file system of `folder` prevents this method; None if nothing is known."""
    mount = mounted_at(folder)
    if mount is None:
        return None
    if method in FILE_SYSTEMS and method != mount.kind:
        return f"{folder} is on {mount.kind}"
    if method == "reflink" and mount.kind in NO_REFLINK:
        return f"{folder} is on {mount.kind}, where files cannot share blocks"
    return None


STRATEGY_MAJOR = 15
"""The first version with STRATEGY of CREATE DATABASE."""
FILE_COPY_METHOD_MAJOR = 18
"""The first version with the setting file_copy_method."""
DROP_CACHES = Path("/proc/sys/vm/drop_caches")
"""root writes this file to make the kernel drop its page cache."""


def check_reset(plan: Sections) -> Iterator[Problem]:
    """Yield all of the reset that is impossible with the dataset, as far as that is valid, and the targets."""
    reset = plan.reset
    if reset is None:
        return
    dataset = plan.workload.dataset if plan.workload is not None else None
    if dataset == "none":
        yield from _without_dataset(reset, plan)
    if isinstance(dataset, SqlDataset) and reset.consistency == "full":
        message = '"full" checks rules that pgdyno does not know of data that SQL files make'
        yield plan.problem(("reset", "consistency"), message, 'set consistency = "counts", which counts rows')
    yield from _template(reset, plan)
    yield from _snapshot(reset, plan)
    majors = {name: target.major for name, target in plan.targets.items()}
    yield from check_versions(reset, majors, plan.document)
    for name, target in plan.targets.items():
        if isinstance(target, NetworkTarget):
            yield from _over_network(reset, name, target, plan)
        elif isinstance(target, OwnTarget):
            yield from _of_cluster(reset, name, target, plan)
    if reset.drop_cache == "machine" and not os.access(DROP_CACHES, os.W_OK):
        message = f"cannot drop the page cache of this machine: no permission to write {DROP_CACHES}"
        yield plan.problem(("reset", "drop_cache"), message, 'run as root, or set drop_cache = "files"')


def _without_dataset(reset: Reset, plan: Sections) -> Iterator[Problem]:
    for name, target in plan.targets.items():
        if isinstance(target, RentedTarget) and target.takes_snapshot:
            message = "there is nothing to restore: the plan names no snapshot, and its workload has no dataset"
            yield plan.problem(("target", name, "restore"), message, "name a snapshot, or remove it")
    if reset.method in ("template", "snapshot", "reload"):
        message = f'"{reset.method}" restores a dataset, and the workload has none'
        yield plan.problem(("reset", "method"), message, 'set dataset = "pgbench", or method = "none"')
    if reset.consistency in ("full", "counts"):
        message = f'"{reset.consistency}" checks a dataset, and the workload has none'
        yield plan.problem(("reset", "consistency"), message, 'leave it out, or set consistency = "none"')


def _template(reset: Reset, plan: Sections) -> Iterator[Problem]:
    if reset.method != "template":
        for name in ("strategy", "file_copy_method"):
            if getattr(reset, name) is not None:
                yield plan.problem(("reset", name), 'is valid only with method = "template"', "remove it")
    elif reset.file_copy_method is not None and reset.strategy != "file_copy":
        yield plan.problem(("reset", "file_copy_method"), 'is valid only with strategy = "file_copy"', "add it")


def _over_network(reset: Reset, name: str, target: NetworkTarget, plan: Sections) -> Iterator[Problem]:
    why = f"target {name} is reached only over the network"
    if reset.method == "snapshot":
        message = f"{why}: its data directory cannot be copied"
        yield plan.problem(("reset", "method"), message, 'set method = "template" or "reload"')
    if reset.method == "template" and target.allow_existing:
        message = f"template drops the workload's database, and allow_existing of target {name} allows one that "
        message += "pgdyno did not create"
        yield plan.problem(("reset", "method"), message, 'set method = "reload", or remove allow_existing')
    if reset.restart:
        yield plan.problem(("reset", "restart"), f"{why}: it cannot be restarted", "remove it")
    if reset.drop_cache != "none":
        yield plan.problem(("reset", "drop_cache"), f"{why}: the page cache belongs to its host", "remove it")


def _of_cluster(reset: Reset, name: str, target: OwnTarget, plan: Sections) -> Iterator[Problem]:
    remedy = 'set method = "template" or "reload"'
    if reset.method == "snapshot" and target.environment.wal is not None:
        message = f"a copy of a data directory includes its WAL, and target {name} keeps it elsewhere (environment.wal)"
        yield plan.problem(("reset", "method"), message, remedy)
    if reset.method == "snapshot" and target.follower_count:
        message = f"the replicas or the subscriber of target {name} cannot follow a restored cluster"
        yield plan.problem(("reset", "method"), message, remedy)
    if reset.drop_cache != "none" and target.environment.data == TMPFS:
        message = f"the cluster of target {name} is in memory (environment.data), not in the page cache"
        yield plan.problem(("reset", "drop_cache"), message, "remove it")


def check_versions(reset: Reset, majors: Mapping[str, int | None], document: Document) -> Iterator[Problem]:
    """Yield what targets are too old for, without unknown versions; keys without effect are reported only there."""
    if reset.method != "template":
        return
    needs = (
        ("strategy", reset.strategy, STRATEGY_MAJOR),
        ("file_copy_method", reset.file_copy_method, FILE_COPY_METHOD_MAJOR),
    )
    for name, value, first in needs:
        old = [target for target, major in majors.items() if major is not None and major < first]
        if value is not None and old:
            listed = ", ".join(f"{target} ({majors[target]})" for target in old)
            message = f'"{value}" needs PostgreSQL {first} or later, but the plan has target {listed}'
            yield document.problem(("reset", name), message, "remove it, or use a later version")


def check_found(
    plan: Plan,
    majors: Mapping[str, int],
    abilities: Mapping[str, Abilities],
    source: str,
    document: Document,
    folder: Path,
) -> None:
    """Check the versions and permissions that targets, by name, report when the run starts.

    The plan's files are relative to `folder`. Raises PlanError with all problems, for the plan `document` of `source`.
    """
    found = [*check_versions(plan.reset, majors, document), *check_abilities(plan, abilities, document, folder)]
    if found:
        raise PlanError(source, in_order(found))
