"""Checks the folders, variables and replicas of a server that pgdyno starts."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from pgdyno.errors import Problem
from pgdyno.plan.document import Document
from pgdyno.plan.targets import OwnTarget
from pgdyno.units import format_bytes, parse_bytes

PROGRAMS = ("initdb", "postgres")
TMPFS = "tmpfs"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_Where = tuple[str | int, ...]


def check_own(path: _Where, target: OwnTarget, document: Document) -> Iterator[Problem]:
    """Yields everything of `target` that this machine cannot provide."""
    yield from _environment((*path, "environment"), target, document)
    yield from _replicas(path, target, document)


def check_variables(path: _Where, variables: Mapping[str, str], document: Document) -> Iterator[Problem]:
    """Yields invalid names of environment variables."""
    for name, value in variables.items():
        if _VARIABLE.fullmatch(name) is None or "\0" in value:
            yield document.problem(
                (*path, name), "is not a valid name of an environment variable", "use letters, digits and _"
            )


def _environment(path: _Where, target: OwnTarget, document: Document) -> Iterator[Problem]:
    wanted = target.environment
    for key, folder in (("data", wanted.data), ("wal", wanted.wal)):
        if folder is None or (key == "data" and folder == TMPFS):
            continue
        if target.keep_data:
            message = "cannot be combined with keep_data: pgdyno removes the folder after the run"
            yield document.problem((*path, key), message, "remove one of them")
        if not Path(folder).expanduser().is_absolute():
            yield document.problem((*path, key), f"{folder} is not an absolute path", 'such as "/mnt/nvme"')
        elif not Path(folder).expanduser().is_dir():
            yield document.problem(
                (*path, key), f"folder {folder} does not exist", "create it, or mount its file system"
            )
    yield from _tmpfs(path, target, document)
    yield from check_variables((*path, "variables"), wanted.variables, document)
    for name in wanted.variables:
        if name.startswith("PG"):
            message = "cannot be given: the server would parse it as an option of its own"
            yield document.problem((*path, "variables", name), message, "use the target's settings")


def _tmpfs(path: _Where, target: OwnTarget, document: Document) -> Iterator[Problem]:
    wanted = target.environment
    if wanted.data != TMPFS:
        if wanted.tmpfs_size is not None:
            yield document.problem((*path, "tmpfs_size"), 'goes only with data = "tmpfs"', "remove it")
        return
    if target.keep_data:
        yield document.problem(
            (*path, "data"), "cannot be combined with keep_data: memory is not persistent", "remove one of them"
        )
    if wanted.tmpfs_size is not None:
        asked, memory = parse_bytes(wanted.tmpfs_size), os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        if asked > memory:
            message = f"{wanted.tmpfs_size} exceed this machine's memory, {format_bytes(memory)}"
            yield document.problem((*path, "tmpfs_size"), message)


def _replicas(path: _Where, target: OwnTarget, document: Document) -> Iterator[Problem]:
    if target.replicas is None:
        return
    settings = {name.lower(): value for name, value in target.settings.items()}
    for name in ("synchronous_standby_names", "primary_conninfo", "primary_slot_name"):
        if name in settings:
            yield document.problem(
                (*path, "settings", name), "cannot be set: pgdyno sets it for the replicas", "remove it"
            )
    if settings.get("wal_level", "replica").lower() not in ("replica", "logical"):
        yield document.problem((*path, "settings", "wal_level"), "replicas need replica or logical", "remove it")
