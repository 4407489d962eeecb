"""Checks whether the dataset, the version and this machine support [reset]."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from pgdyno.errors import PlanError, Problem
from pgdyno.plan.abilities import Abilities, check_abilities
from pgdyno.plan.document import Document, in_order
from pgdyno.plan.model import Plan, Reset
from pgdyno.plan.network_target import NetworkTarget
from pgdyno.plan.own_checks import TMPFS
from pgdyno.plan.snapshot_checks import check_snapshot
from pgdyno.plan.targets import OwnTarget, TargetSpec

STRATEGY_MAJOR = 15
"""The first version with STRATEGY of CREATE DATABASE."""
FILE_COPY_METHOD_MAJOR = 18
"""The first version with the setting file_copy_method."""
DROP_CACHES = Path("/proc/sys/vm/drop_caches")
"""root writes this file to make the kernel drop its page cache."""


def check_reset(
    reset: Reset, dataset: str | None, targets: Mapping[str, TargetSpec], document: Document
) -> Iterator[Problem]:
    """Yields everything of `reset` that is impossible with `targets`.

    `dataset` is the workload's, or None if that is invalid.
    """
    if dataset == "none":
        yield from _without_dataset(reset, document)
    yield from _misplaced(reset, document)
    yield from check_snapshot(reset, targets, document)
    majors = {name: target.major for name, target in targets.items()}
    yield from check_versions(reset, majors, document)
    for name, target in targets.items():
        if isinstance(target, NetworkTarget):
            yield from _over_network(reset, name, target, document)
        elif isinstance(target, OwnTarget):
            yield from _with_places(reset, name, target, document)
    if reset.drop_cache == "machine" and not os.access(DROP_CACHES, os.W_OK):
        message = f"cannot drop the page cache of this machine: no permission to write {DROP_CACHES}"
        yield document.problem(("reset", "drop_cache"), message, 'run as root, or set drop_cache = "files"')


def _without_dataset(reset: Reset, document: Document) -> Iterator[Problem]:
    if reset.method in ("template", "snapshot", "reload"):
        message = f'"{reset.method}" brings a dataset back, and dataset is none'
        yield document.problem(("reset", "method"), message, 'set dataset = "pgbench", or method = "none"')
    if reset.consistency in ("full", "counts"):
        message = f'"{reset.consistency}" checks a dataset, and dataset is none'
        yield document.problem(("reset", "consistency"), message, 'leave it out, or set consistency = "none"')


def _misplaced(reset: Reset, document: Document) -> Iterator[Problem]:
    if reset.method != "template":
        for name in ("strategy", "file_copy_method"):
            if getattr(reset, name) is not None:
                yield document.problem(("reset", name), 'goes only with method = "template"', "remove it")
    elif reset.file_copy_method is not None and reset.strategy != "file_copy":
        yield document.problem(("reset", "file_copy_method"), 'goes only with strategy = "file_copy"', "add it")


def _over_network(reset: Reset, name: str, target: NetworkTarget, document: Document) -> Iterator[Problem]:
    why = f"target {name} is reached only over the network"
    if reset.method == "snapshot":
        message = f"{why}: its data directory cannot be copied"
        yield document.problem(("reset", "method"), message, 'set method = "template" or "reload"')
    if reset.method == "template" and target.allow_existing:
        message = (
            f"template drops the workload's database, and allow_existing of target {name} allows one that pgdyno "
            "did not create"
        )
        yield document.problem(("reset", "method"), message, 'set method = "reload", or remove allow_existing')
    if reset.restart:
        yield document.problem(("reset", "restart"), f"{why}: it cannot be restarted", "remove it")
    if reset.drop_cache != "none":
        yield document.problem(("reset", "drop_cache"), f"{why}: the page cache belongs to its host", "remove it")


def _with_places(reset: Reset, name: str, target: OwnTarget, document: Document) -> Iterator[Problem]:
    remedy = 'set method = "template" or "reload"'
    if reset.method == "snapshot" and target.environment.wal is not None:
        message = f"a copy of a data directory includes its WAL, and target {name} keeps it elsewhere (environment.wal)"
        yield document.problem(("reset", "method"), message, remedy)
    if reset.method == "snapshot" and target.replicas is not None:
        message = f"the replicas of target {name} cannot follow a restored cluster"
        yield document.problem(("reset", "method"), message, remedy)
    if reset.drop_cache != "none" and target.environment.data == TMPFS:
        message = f"the cluster of target {name} is in memory (environment.data), not in the page cache"
        yield document.problem(("reset", "drop_cache"), message, "remove it")


def check_versions(reset: Reset, majors: Mapping[str, int | None], document: Document) -> Iterator[Problem]:
    """Yields what targets are too old for; skips those whose version is None.

    Keys without effect are reported only for that.
    """
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
            message = f'"{value}" needs PostgreSQL {first} or later, and there is target {listed}'
            yield document.problem(("reset", name), message, "remove it, or use a later version")


def check_found(
    plan: Plan, majors: Mapping[str, int], abilities: Mapping[str, Abilities], source: str, document: Document
) -> None:
    """Checks the versions and permissions that targets, by name, report when the run starts.

    Raises PlanError with all problems, for the plan `document` of `source`.
    """
    found = [*check_versions(plan.reset, majors, document), *check_abilities(plan, abilities, document)]
    if found:
        raise PlanError(source, in_order(found))
