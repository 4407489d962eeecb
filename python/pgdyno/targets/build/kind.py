"""kind = "build": a source tree, compiled out of place; the home keeps each build under a key made from its inputs."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import subprocess
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from filelock import Timeout

from pgdyno.errors import TargetError
from pgdyno.messages import Message
from pgdyno.mounts import expanded
from pgdyno.targets.build.schema import BuildTarget
from pgdyno.targets.cluster.installation import Installation, inspect_programs
from pgdyno.targets.cluster.subprocesses import session
from pgdyno.targets.home import Home, Progress, ensure_folder, storing
from pgdyno.targets.kind import OwnKind, TargetKind

FILES = {"configure": "configure", "meson": "meson.build"}
"""The file that each build system needs in the top folder."""
_GIT_TIMEOUT_S = 120
_SHORT = 12


@dataclass(frozen=True, slots=True)
class Source:
    """The current state of a source tree."""

    folder: Path
    key: str
    """Changes when any file of the tree changes that git does not ignore."""
    words: str
    """A description for messages: `commit 1a2b3c4d5e6f, changed`."""
    meson: bool
    """Whether meson builds it instead of configure."""


def read_source(folder: Path, system: Literal["configure", "meson"] | None = None) -> Source:
    """Read the tree in `folder`, to be built by `system`; None selects configure if the tree has it.

    Raises TargetError if there is no such tree, or if it was built in place.
    """
    there = [name for name in ("configure", "meson") if (folder / FILES[name]).is_file()]
    if not there or (system is not None and system not in there):
        missing = FILES[system] if system is not None else " or ".join(FILES.values())
        raise TargetError(
            f"cannot build {folder}: there is no {missing}", hint="name the top folder of PostgreSQL's source"
        )
    meson = (system or there[0]) == "meson"
    if (folder / "config.status").exists():
        # PostgreSQL's configure refuses to build out of place after an in-place build, or mixes both
        raise TargetError(
            f"cannot build {folder}: it was configured in place", hint=f"run make distclean in {folder} first"
        )
    commit = _git(folder, "rev-parse", "HEAD") if (folder / ".git").exists() else None
    if commit is None:
        key = _hash_files(folder, _all_files(folder))
        return Source(folder, f"tree {key}", f"files {key[:_SHORT]}", meson)
    changed = _changes(folder)
    name = commit.decode().strip()
    words = f"commit {name[:_SHORT]}" + (", changed" if changed else "")
    return Source(folder, f"commit {name} {changed}", words, meson)


def _changes(folder: Path) -> str:
    """Return a hash of uncommitted changes; empty if there are none."""
    diff = _git(folder, "diff", "--binary", "HEAD") or b""
    listed = _git(folder, "ls-files", "--others", "--exclude-standard", "-z") or b""
    others = [folder / os.fsdecode(name) for name in listed.split(b"\0") if name]
    if not diff and not others:
        return ""
    return hashlib.sha256(diff + _hash_files(folder, others).encode()).hexdigest()


def _git(folder: Path, *arguments: str) -> bytes | None:
    """Return git's output; None without git, or if git does not track the tree (an archive next to a stray .git)."""
    # the tree may belong to another user, which git refuses: only its own files are read
    command = ["git", "-c", "safe.directory=*", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_GIT_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout


def _all_files(folder: Path) -> list[Path]:
    found = []
    for at, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != ".git")
        found += [Path(at, name) for name in sorted(names)]
    return found


def _hash_files(folder: Path, files: list[Path]) -> str:
    total = hashlib.sha256()
    for path in files:
        with storing(path, "cannot read"):
            status = path.lstat()
            content = os.fsencode(path.readlink()) if path.is_symlink() else b""
            if stat.S_ISREG(status.st_mode):
                # a pipe would never end, and a socket cannot be read
                content = path.read_bytes()
        name = os.fsencode(path.relative_to(folder))
        total.update(b"%d %o %d %s\0" % (len(name), status.st_mode, len(content), name))
        total.update(content)
    return total.hexdigest()


TELLING_LINES = 15
"""How many lines of a failed build the message shows; the log has all of them."""
TOLD_EVERY_S = 15.0
_POLL_S = 0.1
_COMPILER_VARIABLES = ("CC", "CFLAGS", "CPPFLAGS", "LDFLAGS", "LIBS", "CXX", "CXXFLAGS", "LLVM_CONFIG", "CLANG")
"""Variables of pgdyno's environment that a build sees and that change its result."""
_PASSED_ON = ("PATH", "HOME", "TMPDIR", "PKG_CONFIG_PATH", "CCACHE_DIR", "LD_LIBRARY_PATH", *_COMPILER_VARIABLES)


@dataclass(frozen=True, slots=True)
class Recipe:
    """All inputs that determine the result of a build."""

    source: Source
    arguments: tuple[str, ...]
    variables: Mapping[str, str]
    compiler: str
    """The version line that the compiler prints."""

    @property
    def key(self) -> str:
        facts = [self.source.key, self.arguments, sorted(self.variables.items()), self.compiler]
        facts += ["meson"] if self.source.meson else []
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]

    @property
    def words(self) -> str:
        """`/src/postgres, commit 1a2b3c4d5e6f, --without-icu, CFLAGS=-O3`."""
        given = [f"{name}={value}" for name, value in sorted(self.variables.items())]
        system = ["meson"] if self.source.meson else []
        return ", ".join([str(self.source.folder), self.source.words, *system, *self.arguments, *given])


def find_build(
    spec: BuildTarget, home: Home, progress: Progress, environ: Mapping[str, str] | None = None
) -> Installation:
    """Return the build that `spec` asks for, and builds it unless the home has it.

    Raises TargetError with the last lines of the failed command and the log's path.
    """
    environ = os.environ if environ is None else environ
    recipe = _recipe(spec, environ)
    folder = _builds(home) / recipe.key
    if not folder.is_dir():
        # the search for abandoned builds does not need this build's lock
        _remove_abandoned(home)
        waiting = f"waiting for another pgdyno, which builds {spec.source}"
        with home.locked(f"build-{recipe.key}", progress, waiting):
            if not folder.is_dir():
                _Build(recipe, folder, progress, environ).run()
    installed = _install_folder(folder)
    version, major = inspect_programs(
        installed / "bin", home.account, None, f"remove {folder}; pgdyno then builds it again"
    )
    note = Message("built-from", "built from {source}", source=recipe.words)
    return Installation(installed / "bin", version, major, f"build {recipe.key} {version}", notes=[note])


def _recipe(spec: BuildTarget, environ: Mapping[str, str]) -> Recipe:
    variables = {name: environ[name] for name in _COMPILER_VARIABLES if environ.get(name)}
    variables |= spec.build_variables
    if spec.cflags is not None:
        variables["CFLAGS"] = spec.cflags
    source = read_source(expanded(spec.source).absolute(), spec.build_system)
    return Recipe(source, tuple(spec.configure), variables, _compiler(variables, environ))


def _compiler(variables: Mapping[str, str], environ: Mapping[str, str]) -> str:
    """Return the first line of the compiler's version; empty if it cannot run, which configure then explains."""
    words = (variables.get("CC") or "cc").split()
    try:
        done = subprocess.run(
            [*words, "--version"],
            env={"PATH": environ.get("PATH", os.defpath)},
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.partition("\n")[0]


def _builds(home: Home) -> Path:
    return home.root / "builds"


def _install_folder(folder: Path) -> Path:
    return folder / "installed"


def _remove_abandoned(home: Home) -> None:
    for work in _builds(home).glob("*.partial") if _builds(home).is_dir() else ():
        lock = home.lock(f"build-{work.name.removesuffix('.partial')}")
        with suppress(Timeout, OSError):
            lock.acquire(timeout=0)
            shutil.rmtree(work, ignore_errors=True)
            lock.release()


class _Build:
    """One build; if it fails, only its log stays."""

    def __init__(self, recipe: Recipe, folder: Path, progress: Progress, environ: Mapping[str, str]) -> None:
        self._recipe = recipe
        self._folder = folder
        self._progress = progress
        self._partial = folder.with_name(f"{folder.name}.partial")
        self._log = folder.with_name(f"{folder.name}.log")
        passed = {name: environ[name] for name in _PASSED_ON if name in environ}
        self._environment = {**passed, **recipe.variables, "LC_ALL": "C"}

    def run(self) -> None:
        """Configure, compile and install; the folder appears when it is complete. Raises TargetError."""
        ensure_folder(self._folder.parent)
        shutil.rmtree(self._partial, ignore_errors=True)
        work, staged = self._partial / "work", self._partial / "staged"
        for folder in (work, staged):
            ensure_folder(folder)
        try:
            with storing(self._log, "cannot write"):
                self._log.write_text(f"{self._recipe.words}\n")
            for doing, command in self._commands(work, staged):
                self._step(doing, command, work)
            # installed for its final path, but staged below another root
            inside = staged / _install_folder(self._folder).relative_to("/")
            if not (inside / "bin").is_dir():
                raise TargetError(
                    f"cannot build {self._recipe.source.folder}: nothing was installed; see {self._log}",
                    hint="its install must honour DESTDIR, as PostgreSQL's does",
                )
            with storing(self._folder, "cannot make"):
                inside.parent.rename(self._folder)
        finally:
            shutil.rmtree(self._partial, ignore_errors=True)

    def _commands(self, work: Path, staged: Path) -> list[tuple[str, Sequence[str]]]:
        source, prefix = self._recipe.source, f"--prefix={_install_folder(self._folder)}"
        if source.meson:
            meson = ["meson", "setup", prefix, *self._recipe.arguments, str(work), str(source.folder)]
            return [
                ("configuring", meson),
                ("compiling", ["meson", "compile", "-C", str(work)]),
                ("installing", ["meson", "install", "-C", str(work), "--no-rebuild", f"--destdir={staged}"]),
            ]
        make = ["make", f"-j{os.cpu_count() or 1}"]
        commands: list[tuple[str, Sequence[str]]] = [
            ("configuring", [str(source.folder / "configure"), prefix, *self._recipe.arguments]),
            ("compiling", make),
            ("installing", ["make", "install", f"DESTDIR={staged}"]),
        ]
        if (source.folder / "contrib" / "Makefile").is_file():
            # provides pg_prewarm and pg_buffercache
            contrib = ["make", "-C", "contrib"]
            commands.insert(2, ("compiling contrib", [*make, "-C", "contrib"]))
            commands.append(("installing contrib", [*contrib, "install", f"DESTDIR={staged}"]))
        return commands

    def _step(self, doing: str, command: Sequence[str], work: Path) -> None:
        self._progress.step(f"{doing} {self._recipe.source.folder}")
        with storing(self._log, "cannot write"):
            log = self._log.open("ab")
        with log:
            log.write(f"\n$ {' '.join(command)}\n".encode())
            log.flush()
            status = self._run(command, work, log.fileno(), doing)
        if status != 0:
            raise TargetError(
                f"cannot build {self._recipe.source.folder}: {doing} failed with status {status}:\n"
                f"{_last_lines(self._log)}",
                hint=f"see the whole log: {self._log}",
            )

    def _run(self, command: Sequence[str], work: Path, log: int, doing: str) -> int:
        with session(lambda: self._spawn(command, work, log)) as process:
            return self._wait(process, doing)

    def _spawn(self, command: Sequence[str], work: Path, log: int) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                command,
                cwd=work,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # servers may run as another user, who must be able to read the installation
                umask=0o022,
                start_new_session=True,
            )
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            hint = None
            if command[0] in ("make", "meson"):
                hint = f"install {command[0]}" + (" and ninja" if command[0] == "meson" else "")
            raise TargetError(f"cannot run {command[0]}: {reason}", hint=hint) from error

    def _wait(self, process: subprocess.Popen[bytes], doing: str) -> int:
        told = time.monotonic()
        while (status := process.poll()) is None:
            if time.monotonic() - told > TOLD_EVERY_S:
                told = time.monotonic()
                lines = self._log.read_bytes().count(b"\n")
                self._progress.step(f"{doing} {self._recipe.source.folder}: {lines:,} lines of its log")
            time.sleep(_POLL_S)
        return status


def _last_lines(log: Path) -> str:
    with log.open(encoding="utf-8", errors="replace") as file:
        return "".join(f"  {line}" for line in deque(file, maxlen=TELLING_LINES)).rstrip("\n")


KIND: TargetKind[BuildTarget, Installation] = OwnKind(find_build)
