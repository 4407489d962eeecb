"""What cannot be said of a target: of its settings, its folders, its address."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from pgdyno.errors import Problem
from pgdyno.plan.aws_checks import check_aws
from pgdyno.plan.aws_targets import AwsTarget
from pgdyno.plan.network_target import NetworkTarget
from pgdyno.plan.problems import Document
from pgdyno.plan.reserved import refusal
from pgdyno.plan.setting_contexts import network_refusal
from pgdyno.plan.ssh_checks import check_ssh
from pgdyno.plan.targets import BuildTarget, DsnTarget, LocalTarget, OwnTarget, TargetSpec
from pgdyno.units import format_bytes, parse_bytes

PROGRAMS = ("initdb", "postgres")
TMPFS = "tmpfs"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLACES = ("--prefix", "--exec-prefix", "--bindir", "--libdir", "--datadir", "-Dprefix", "-Dbindir", "-Dlibdir")
_SECRET = b"*"
"""How libpq marks parameters that are not to be shown."""


def check_targets(targets: Mapping[str, TargetSpec], document: Document) -> Iterator[Problem]:
    """Everything of `targets` that cannot be had, as far as that is known without them."""
    for name, target in targets.items():
        yield from _settings(name, target, document)
        if isinstance(target, DsnTarget):
            yield from _address(("target", name), target, document)
            if target.ssh is not None:
                yield from check_ssh(("target", name, "ssh"), target.ssh, document)
            continue
        if isinstance(target, AwsTarget):
            yield from check_aws(("target", name), target, document)
            continue
        yield from _environment(("target", name, "environment"), target, document)
        yield from _replicas(("target", name), target, document)
        if isinstance(target, LocalTarget):
            yield from _installation(("target", name), target, document)
        if isinstance(target, BuildTarget):
            yield from _source(("target", name), target, document)
    yield from _shared_databases(targets, document)


def _settings(name: str, target: TargetSpec, document: Document) -> Iterator[Problem]:
    for setting in target.settings:
        reason = refusal(setting)
        if reason is None and isinstance(target, NetworkTarget):
            reason = network_refusal(setting)
        if reason is not None:
            remedy = "put it under parameters" if isinstance(target, AwsTarget) else "remove it"
            yield document.problem(("target", name, "settings", setting), f"cannot be set: {reason}", remedy)


# ---- over the network ----


def _address(path: tuple[str, ...], target: DsnTarget, document: Document) -> Iterator[Problem]:
    # libpq takes a while to load, and most plans name no server over the network
    import psycopg
    from psycopg import pq
    from psycopg.conninfo import conninfo_to_dict

    variable = target.password_env
    if variable is not None and variable not in os.environ:
        message = f"the environment has no variable {variable}"
        yield document.problem((*path, "password_env"), message, "set it before pgdyno is started")
    try:
        parameters = conninfo_to_dict(target.dsn)
    except psycopg.ProgrammingError as error:
        # libpq quotes what it could not read, which may be a piece of a password
        said = "" if "password" in target.dsn.lower() or "@" in target.dsn else f": {str(error).strip()}"
        hint = 'such as "host=db.example.net user=bench" or "postgresql://bench@db.example.net"'
        yield document.problem((*path, "dsn"), f"is no connection string{said}", hint)
        return
    known = {option.keyword.decode(): option for option in pq.Conninfo.get_defaults()}
    for name in parameters:
        option = known[name]
        if option.dispchar == _SECRET:
            message = f"{name} may not stand here: it would get into the results"
            hint = "leave it to PGPASSWORD, the password file or the service file, or name a variable by password_env"
            yield document.problem((*path, "dsn"), message, hint if name == "password" else "remove it")
        elif option.envvar is None:
            message = f"{name} cannot be handed to the engine: libpq has no environment variable for it"
            yield document.problem((*path, "dsn"), message, f"remove {name}")


def _shared_databases(targets: Mapping[str, TargetSpec], document: Document) -> Iterator[Problem]:
    seen: dict[tuple[str, str], str] = {}
    for name, target in targets.items():
        if not isinstance(target, DsnTarget):
            continue
        first = seen.setdefault((target.dsn, target.database), name)
        if first != name:
            message = f"target {first} has the same database on the same server"
            yield document.problem(("target", name), message, "give each a database of its own")


# ---- servers of our own ----


def _installation(path: tuple[str, ...], target: LocalTarget, document: Document) -> Iterator[Problem]:
    remedy = "set bin to the folder with initdb and postgres, such as /usr/lib/postgresql/18/bin"
    if target.bin is None:
        if shutil.which("pg_config") is None:
            yield document.problem((*path, "bin"), "is missing, and there is no pg_config on the PATH", remedy)
        return
    folder = Path(target.bin).expanduser()
    if not folder.is_dir():
        yield document.problem((*path, "bin"), f"there is no folder {folder}", remedy)
        return
    for program in PROGRAMS:
        if not os.access(folder / program, os.X_OK):
            yield document.problem((*path, "bin"), f"there is no program {program} in {folder}", remedy)


def _source(path: tuple[str, ...], target: BuildTarget, document: Document) -> Iterator[Problem]:
    folder = Path(target.source).expanduser()
    if not folder.is_dir():
        yield document.problem((*path, "source"), f"there is no folder {folder}")
    elif not any((folder / name).is_file() for name in ("configure", "meson.build")):
        message = f"there is neither configure nor meson.build in {folder}"
        yield document.problem((*path, "source"), message, "name the top folder of PostgreSQL's source")
    elif target.build_system is not None:
        file = "meson.build" if target.build_system == "meson" else "configure"
        if not (folder / file).is_file():
            hint = "PostgreSQL has it from version 16 on" if target.build_system == "meson" else 'use "meson"'
            yield document.problem((*path, "build_system"), f"there is no {file} in {folder}", hint)
    for place, argument in enumerate(target.configure):
        if argument.startswith(_PLACES):
            message = f"{argument} cannot be given: pgdyno installs builds in its home"
            yield document.problem((*path, "configure", place), message, "remove it")
    yield from _variables((*path, "build_variables"), target.build_variables, document)


def _environment(path: tuple[str, ...], target: OwnTarget, document: Document) -> Iterator[Problem]:
    wanted = target.environment
    for key, folder in (("data", wanted.data), ("wal", wanted.wal)):
        if folder is None or (key == "data" and folder == TMPFS):
            continue
        if target.keep_data:
            message = "does not go with keep_data: what is made in that folder is removed behind the run"
            yield document.problem((*path, key), message, "remove one of them")
        if not Path(folder).expanduser().is_absolute():
            yield document.problem((*path, key), f"{folder} is not an absolute path", 'such as "/mnt/nvme"')
        elif not Path(folder).expanduser().is_dir():
            yield document.problem((*path, key), f"there is no folder {folder}", "make it, or mount what is there")
    yield from _tmpfs(path, target, document)
    yield from _variables((*path, "variables"), wanted.variables, document)
    for name in wanted.variables:
        if name.startswith("PG"):
            message = "cannot be given: the server would take it for an option of its own"
            yield document.problem((*path, "variables", name), message, "use the target's settings")


def _tmpfs(path: tuple[str, ...], target: OwnTarget, document: Document) -> Iterator[Problem]:
    wanted = target.environment
    if wanted.data != TMPFS:
        if wanted.tmpfs_size is not None:
            yield document.problem((*path, "tmpfs_size"), 'goes only with data = "tmpfs"', "remove it")
        return
    if target.keep_data:
        yield document.problem((*path, "data"), "does not go with keep_data: memory keeps nothing", "remove one")
    if wanted.tmpfs_size is not None:
        asked, memory = parse_bytes(wanted.tmpfs_size), os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        if asked > memory:
            message = f"{wanted.tmpfs_size} are more than this machine's memory, {format_bytes(memory)}"
            yield document.problem((*path, "tmpfs_size"), message)


def _variables(path: tuple[str, ...], variables: Mapping[str, str], document: Document) -> Iterator[Problem]:
    for name, value in variables.items():
        if _VARIABLE.fullmatch(name) is None or "\0" in value:
            yield document.problem((*path, name), "is not a variable of an environment", "use letters, digits and _")


def _replicas(path: tuple[str, ...], target: OwnTarget, document: Document) -> Iterator[Problem]:
    if target.replicas is None:
        return
    settings = {name.lower(): value for name, value in target.settings.items()}
    for name in ("synchronous_standby_names", "primary_conninfo", "primary_slot_name"):
        if name in settings:
            yield document.problem(
                (*path, "settings", name), "cannot be set: pgdyno does, for the replicas", "remove it"
            )
    if settings.get("wal_level", "replica").lower() not in ("replica", "logical"):
        yield document.problem((*path, "settings", "wal_level"), "replicas need replica or logical", "remove it")
