"""Extensions of a plan: built with PGXS against a target's server, and installed into a copy of its programs.

PostgreSQL finds its folders relative to its programs, so a copy that keeps their places to each other works like the
original, which never changes.
"""

import hashlib
import json
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pgdyno.errors import TargetError
from pgdyno.messages import Message
from pgdyno.mounts import expand_home
from pgdyno.plan.targets import Extension
from pgdyno.programs import ask
from pgdyno.targets.build.cached_build import CachedBuild, compiler_variables, compiler_version
from pgdyno.targets.build.source_tree import Source, all_files, copy_files, copy_tree, read_tree
from pgdyno.targets.cluster.installation import Installation
from pgdyno.targets.home import Home, Progress, target_errors

_FOLDERS = ("BINDIR", "INCLUDEDIR", "INCLUDEDIR-SERVER", "LIBDIR", "PKGINCLUDEDIR", "PKGLIBDIR", "SHAREDIR")
"""The folders that an extension is built with, as pg_config names them."""
_PROGRAMS = re.compile(r"pg_\w+|postgres|initdb|psql")
"""Programs to copy from a folder that may have others."""
_VERSION = re.compile(r"(?m)^\s*default_version\s*=\s*'([^']*)'")
_MADE = "extensions.json"


@dataclass(frozen=True, slots=True)
class _Made:
    """What one source tree installed."""

    names: list[str]
    """Extensions that can be created; none if it is only a library."""
    title: str
    """`vector 0.8.0`, or the name of the source folder."""


def add_extensions(
    found: Installation,
    wanted: Sequence[Extension],
    home: Home,
    progress: Progress,
    environ: Mapping[str, str] | None = None,
) -> Installation:
    """Return a copy of `found` with the extensions `wanted`, built unless the home has it.

    Raises TargetError with the last lines of the failed command and the log's path.
    """
    if not wanted:
        return found
    environ = os.environ if environ is None else environ
    folders = _ask_folders(found)
    variables = compiler_variables(environ)
    sources = [_read_source(each) for each in wanted]
    facts = [found.origin, _stamp(found), sorted(variables.items()), compiler_version(variables, environ)]
    facts += [[source.key, each.make] for each, source in zip(wanted, sources, strict=True)]
    key = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]
    build = CachedBuild(home, key, sources[0].folder, progress, variables, environ)
    words = "; ".join(f"{source.folder}, {source.words}" for source in sources)

    def carry_out() -> Path:
        staged = build.partial / "staged"
        _copy_installation(folders, staged)
        made = [
            _install(each, source, staged / _below(folders, "BINDIR"), build, number)
            for number, (each, source) in enumerate(zip(wanted, sources, strict=True), start=1)
        ]
        with target_errors(staged, "cannot write to"):
            (staged / _MADE).write_text(json.dumps([[each.names, each.title] for each in made]))
        return staged

    folder = build.complete(f"{words}, for {found.origin}", carry_out)
    with target_errors(folder, "cannot read"):
        made = [_Made(*each) for each in json.loads((folder / _MADE).read_text())]
    built = [
        f"{each.title} ({', '.join([str(source.folder), source.words, *given.make])})"
        for each, source, given in zip(made, sources, wanted, strict=True)
    ]
    libraries = folder / _below(folders, "LIBDIR")
    return replace(
        found,
        bin=folder / _below(folders, "BINDIR"),
        origin=f"{found.origin} with {key}",
        # the programs name the original's libraries, which may go
        library_path=str(libraries) if libraries.is_dir() else found.library_path,
        notes=[
            *found.notes,
            *(Message("with-extension", "with the extension {extension}", extension=each) for each in built),
        ],
        built=", ".join([*([found.built] if found.built else []), *built]),
        creates=[name for each, given in zip(made, wanted, strict=True) if given.create for name in each.names],
    )


def _read_source(wanted: Extension) -> Source:
    source = read_tree(expand_home(wanted.source).absolute(), wanted.commit, wanted.patches)
    if not source.has("Makefile"):
        raise TargetError(
            f"cannot build {source.folder}: there is no Makefile",
            hint="name the top folder of an extension that PGXS builds",
        )
    return source


def _stamp(found: Installation) -> list[int]:
    """Return what changes when the programs are installed again in the same folder."""
    with target_errors(found.bin, "cannot look at"):
        status = (found.bin / "postgres").stat()
    return [status.st_size, status.st_mtime_ns]


def _ask_folders(found: Installation) -> dict[str, Path]:
    """Return the folders of an installation that pg_config names. Raises TargetError if it has no headers."""
    config = found.bin / "pg_config"
    hint = (
        f'install the headers of the server (Debian: postgresql-server-dev-{found.major}), or use kind = "build"; '
        "downloaded servers have none"
    )
    try:
        answer = ask([config], env=found.environment())
    except (OSError, subprocess.SubprocessError) as error:
        raise TargetError(f"cannot build extensions for {found.bin}: it has no pg_config", hint=hint) from error
    named = dict(line.split(" = ", 1) for line in answer.stdout.splitlines() if " = " in line)
    if not (Path(named.get("INCLUDEDIR-SERVER", "")) / "postgres.h").is_file() or not Path(named["PGXS"]).is_file():
        raise TargetError(f"cannot build extensions for {found.bin}: it has no headers of the server", hint=hint)
    folders = {name: Path(named[name]) for name in _FOLDERS}
    if found.bin.resolve().parent not in folders["LIBDIR"].resolve().parents:
        # that of the whole system
        del folders["LIBDIR"]
    return folders


def _below(folders: Mapping[str, Path], name: str) -> Path:
    """Return the place of a folder in a copy of the installation; one that does not exist if it is not in it."""
    if name not in folders:
        return Path("absent")
    return folders[name].relative_to(os.path.commonpath(list(folders.values())))


def _copy_installation(folders: Mapping[str, Path], to: Path) -> None:
    for name, folder in folders.items():
        files = all_files(folder)
        copy_files(
            (each for each in files if name != "BINDIR" or _PROGRAMS.fullmatch(each.name)),
            folder,
            to / _below(folders, name),
        )


def _install(wanted: Extension, source: Source, programs: Path, build: CachedBuild, number: int) -> _Made:
    build.tell("copying")
    work = build.partial / f"extension-{number}"
    copy_tree(source, work)
    make = ["make", f"PG_CONFIG={programs / 'pg_config'}", "USE_PGXS=1", *wanted.make]
    # what was compiled in the tree may be for another server
    build.run("cleaning", [*make, "clean"], work)
    build.run("compiling", [*make, f"-j{os.cpu_count() or 1}"], work)
    build.run("installing", [*make, "install"], work)
    with target_errors(work, "cannot read"):
        controls = {each.stem: each.read_text(errors="replace") for each in sorted(work.glob("*.control"))}
    versions = [(name, _VERSION.search(text)) for name, text in controls.items()]
    titles = [f"{name} {version[1]}" if version else name for name, version in versions]
    return _Made(list(controls), ", ".join(titles) or source.folder.name)
