"""What [reset] asks for and cannot be had: of a dataset, of a version, of this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from pgdyno.errors import PlanError, Problem
from pgdyno.plan.model import EmbeddedTarget, Plan, Reset, TargetSpec
from pgdyno.plan.problems import Document, in_order

STRATEGY_MAJOR = 15
"""First with STRATEGY of CREATE DATABASE."""
FILE_COPY_METHOD_MAJOR = 18
"""First with the setting file_copy_method."""
DROP_CACHES = Path("/proc/sys/vm/drop_caches")
"""Where root tells the kernel to forget its page cache."""


def planned_major(target: TargetSpec) -> int | None:
    """The major version of `target` as far as the plan alone tells; a local one is known when it is looked at."""
    return int(target.version.partition(".")[0]) if isinstance(target, EmbeddedTarget) else None


def check_reset(
    reset: Reset, dataset: str | None, majors: Mapping[str, int | None], document: Document
) -> Iterator[Problem]:
    """Everything of `reset` that cannot be done.

    `dataset` is the workload's, None when that could not be read; `majors` are the targets' versions as far as
    they are known.
    """
    if dataset == "none":
        yield from _without_dataset(reset, document)
    yield from _misplaced(reset, document)
    yield from check_versions(reset, majors, document)
    if reset.drop_cache == "machine" and not os.access(DROP_CACHES, os.W_OK):
        message = f"the page cache of this machine cannot be dropped: {DROP_CACHES} is not ours to write"
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
        yield document.problem(("reset", "file_copy_method"), 'goes only with strategy = "file_copy"', "add that")


def check_versions(reset: Reset, majors: Mapping[str, int | None], document: Document) -> Iterator[Problem]:
    """What targets are too old for; those whose version is None are left out.

    Keys that stand where they say nothing are refused for that alone.
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
            yield document.problem(("reset", name), message, "leave it out, or take a later version")


def check_found_versions(plan: Plan, majors: Mapping[str, int], source: str, document: Document) -> None:
    """The same for `majors` as the targets' programs have them, when the run starts.

    Raises PlanError with every problem, for the plan `document` of `source`.
    """
    problems = in_order(check_versions(plan.reset, majors, document))
    if problems:
        raise PlanError(source, problems)
