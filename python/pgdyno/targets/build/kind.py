"""kind = "build": a source tree, compiled out of place; the home keeps each build under a key made from its inputs."""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pgdyno.errors import TargetError
from pgdyno.messages import Message
from pgdyno.mounts import expand_home
from pgdyno.targets.build.cached_build import CachedBuild, compiler_variables, compiler_version
from pgdyno.targets.build.schema import BuildTarget
from pgdyno.targets.build.source_tree import Source, copy_tree, read_tree
from pgdyno.targets.cluster.installation import Installation, inspect_programs
from pgdyno.targets.home import Home, Progress, ensure_folder
from pgdyno.targets.kind import OwnKind, TargetKind

FILES = {"configure": "configure", "meson": "meson.build"}
"""The file that each build system needs in the top folder."""


def choose_system(source: Source, system: Literal["configure", "meson"] | None = None) -> Literal["configure", "meson"]:
    """Return the build system of the tree: `system` if it has that; None selects configure if the tree has it.

    Raises TargetError if there is none, or if the tree was built in place.
    """
    there = [name for name in FILES if source.has(FILES[name])]
    if not there or (system is not None and system not in there):
        missing = FILES[system] if system is not None else " or ".join(FILES.values())
        raise TargetError(
            f"cannot build {source.folder}: there is no {missing}", hint="name the top folder of PostgreSQL's source"
        )
    if not source.is_in_git and (source.folder / "config.status").exists():
        # so is the copy, and PostgreSQL's configure then refuses to build out of place, or mixes both
        raise TargetError(
            f"cannot build {source.folder}: it was configured in place",
            hint=f"run make distclean in {source.folder} first",
        )
    return system or ("configure" if "configure" in there else "meson")


@dataclass(frozen=True, slots=True)
class Recipe:
    """All inputs that determine the result of a build."""

    source: Source
    meson: bool
    """Whether meson builds it instead of configure."""
    arguments: tuple[str, ...]
    variables: Mapping[str, str]
    compiler: str
    """The version line that the compiler prints."""

    @property
    def key(self) -> str:
        facts = [self.source.key, self.arguments, sorted(self.variables.items()), self.compiler]
        facts += ["meson"] if self.meson else []
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]

    @property
    def words(self) -> str:
        """`/src/postgres, commit 1a2b3c4d5e6f, --without-icu, CFLAGS=-O3`."""
        given = [f"{name}={value}" for name, value in sorted(self.variables.items())]
        system = ["meson"] if self.meson else []
        return ", ".join([str(self.source.folder), self.source.words, *system, *self.arguments, *given])


def find_build(
    spec: BuildTarget, home: Home, progress: Progress, environ: Mapping[str, str] | None = None
) -> Installation:
    """Return the build that `spec` asks for, without its extensions, and builds it unless the home has it.

    Raises TargetError with the last lines of the failed command and the log's path.
    """
    environ = os.environ if environ is None else environ
    recipe = _recipe(spec, environ)
    build = CachedBuild(home, recipe.key, recipe.source.folder, progress, recipe.variables, environ)
    folder = build.complete(recipe.words, lambda: _make(recipe, build))
    installed = _install_folder(folder)
    version, major = inspect_programs(
        installed / "bin", home.account, None, f"remove {folder}; pgdyno then builds it again"
    )
    note = Message("built-from", "built from {source}", source=recipe.words)
    origin = f"build {recipe.key} {version}"
    return Installation(installed / "bin", version, major, origin, notes=[note], built=recipe.words)


def _recipe(spec: BuildTarget, environ: Mapping[str, str]) -> Recipe:
    variables = compiler_variables(environ) | spec.build_variables
    if spec.cflags is not None:
        variables["CFLAGS"] = spec.cflags
    source = read_tree(expand_home(spec.source).absolute(), spec.commit, spec.patches)
    meson = choose_system(source, spec.build_system) == "meson"
    return Recipe(source, meson, tuple(spec.configure), variables, compiler_version(variables, environ))


def _install_folder(folder: Path) -> Path:
    return folder / "installed"


def _make(recipe: Recipe, build: CachedBuild) -> Path:
    """Configure, compile and install; return the folder to keep. Raises TargetError."""
    work, staged, tree = build.partial / "work", build.partial / "staged", build.partial / "source"
    for folder in (work, staged):
        ensure_folder(folder)
    build.tell("copying")
    # all arms are built in the same place: their file names are equally long, and ccache knows their objects
    copy_tree(recipe.source, tree)
    # installed for its final path, but staged below another root
    prefix = _install_folder(build.folder)
    for doing, command in _commands(recipe, tree, work, staged, prefix):
        build.run(doing, command, work)
    inside = staged / prefix.relative_to("/")
    if not (inside / "bin").is_dir():
        raise TargetError(
            f"cannot build {recipe.source.folder}: nothing was installed; see {build.log}",
            hint="its install must honour DESTDIR, as PostgreSQL's does",
        )
    return inside.parent


def _commands(recipe: Recipe, tree: Path, work: Path, staged: Path, prefix: Path) -> list[tuple[str, Sequence[str]]]:
    if recipe.meson:
        return [
            ("configuring", ["meson", "setup", f"--prefix={prefix}", *recipe.arguments, str(work), str(tree)]),
            ("compiling", ["meson", "compile", "-C", str(work)]),
            ("installing", ["meson", "install", "-C", str(work), "--no-rebuild", f"--destdir={staged}"]),
        ]
    make = ["make", f"-j{os.cpu_count() or 1}"]
    commands: list[tuple[str, Sequence[str]]] = [
        ("configuring", [str(tree / "configure"), f"--prefix={prefix}", *recipe.arguments]),
        ("compiling", make),
        ("installing", ["make", "install", f"DESTDIR={staged}"]),
    ]
    if (tree / "contrib" / "Makefile").is_file():
        # provides pg_prewarm and pg_buffercache
        contrib = ["make", "-C", "contrib"]
        commands.insert(2, ("compiling contrib", [*make, "-C", "contrib"]))
        commands.append(("installing contrib", [*contrib, "install", f"DESTDIR={staged}"]))
    return commands


KIND: TargetKind[BuildTarget, Installation] = OwnKind(find_build)
