"""`pgdyno plan new`: a first plan, with comments that explain further options."""

import re
import shutil
from importlib import resources
from pathlib import Path

from pgdyno.errors import StoreError, UsageError
from pgdyno.mounts import is_folder
from pgdyno.plan.plan_document import suggestion
from pgdyno.plan.plan_text import toml_text
from pgdyno.plan.targets import PROGRAMS
from pgdyno.plan.values import LONGEST_NAME, NAME, refuse_undecodable

_EMBEDDED = """\
# What is measured, a table each; its name is what reports call it. With two of them, every point is
# measured on both, and repeats = 6 gives a verdict.
[target.pg18]
kind = "embedded"            # fetched by pgdyno; "local" is an installation of this machine
version = "18"               # the newest 18; "18.1" would be just that one

# Lines of postgresql.conf; all others keep PostgreSQL's defaults:
# [target.pg18.settings]
# shared_buffers = "1GB"
"""
_LOCAL = """\
# What is measured, a table each; its name is what reports call it. With two of them, every point is
# measured on both, and repeats = 6 gives a verdict.
[target.local]
kind = "local"               # an installation of this machine; "embedded" is fetched by pgdyno
bin = {bin}

# Lines of postgresql.conf; all others keep PostgreSQL's defaults:
# [target.local.settings]
# shared_buffers = "1GB"
"""
KINDS = ("embedded", "local")
_INSTALLED = "/usr/lib/postgresql"
"""Where Debian installs PostgreSQL versions."""


def new_plan(file: Path, kind: str = "embedded", template: str = "new.toml") -> str:
    """Return the text of a plan for `file` with a target of `kind`, by a template. Raises UsageError."""
    if kind not in KINDS:
        hint = suggestion(kind, KINDS, f"use {' or '.join(KINDS)}")
        raise UsageError(f"no plan for targets of kind {kind} to start from", hint=hint)
    text = resources.files("pgdyno.plan.output").joinpath(template).read_text(encoding="utf-8")
    target = _EMBEDDED if kind == "embedded" else _LOCAL.format(bin=toml_text(str(_local_bin())))
    return text.format(file=file, name=plan_name(file.name.removesuffix(".toml"), "plan"), target=target)


def write_new_plan(file: Path, kind: str = "embedded", template: str = "new.toml") -> None:
    """Writes the plan; keeps an existing file. Raises UsageError, StoreError."""
    refuse_undecodable(f"the path {file}", str(file))
    text = new_plan(file, kind, template)
    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(text)
    except FileExistsError as error:
        raise UsageError(f"{file} already exists", hint="give another name, or remove it") from error
    except OSError as error:
        if not is_folder(file.parent):
            raise UsageError(f"folder {file.parent} does not exist", hint="create it first") from error
        raise StoreError(f"cannot write {file}: {(error.strerror or str(error)).lower()}") from error


def plan_name(text: str, otherwise: str) -> str:
    """Return the part of `text` that is valid as a plan's name, or `otherwise` without one."""
    letters = re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-_")[:LONGEST_NAME]
    return letters if NAME.fullmatch(letters) else otherwise


def _local_bin() -> Path:
    """Return the programs of an installation: that of pg_config, or else Debian's newest. Raises UsageError."""
    found = shutil.which("pg_config")
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted(Path(_INSTALLED).glob("*/bin"), key=_version, reverse=True)
    for folder in folders:
        if all((folder / program).exists() for program in PROGRAMS):
            return folder
    raise UsageError(
        f"found no PostgreSQL on this machine, neither with pg_config nor in {_INSTALLED}",
        hint="install it, or remove --target to let pgdyno download a server",
    )


def _version(folder: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in folder.parent.name.split(".") if part.isdigit())
