"""What builds have in common: a folder of the home under a key made from all inputs, a log, commands that fail."""

import os
import shutil
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from filelock import Timeout

from pgdyno.errors import TargetError
from pgdyno.programs import ask
from pgdyno.targets.cluster.subprocesses import session
from pgdyno.targets.home import FullDiskError, Home, Progress, ensure_folder, no_space_hint, target_errors

TELLING_LINES = 15
"""How many lines of a failed build the message shows; the log has all of them."""
TOLD_EVERY_S = 15.0
_POLL_S = 0.1
COMPILER_VARIABLES = ("CC", "CFLAGS", "CPPFLAGS", "LDFLAGS", "LIBS", "CXX", "CXXFLAGS", "LLVM_CONFIG", "CLANG")
"""Variables of pgdyno's environment that a build sees and that change its result."""
_PASSED_ON = ("PATH", "HOME", "TMPDIR", "PKG_CONFIG_PATH", "CCACHE_DIR", "LD_LIBRARY_PATH", *COMPILER_VARIABLES)
_CACHED_COMPILERS = ("cc", "gcc")
"""What configure finds when no compiler is named; it stores only the name, so that the link may go."""
_NO_SPACE = "No space left on device"
_LEAST_FREE_BYTES = 16 << 20
"""A command that fails while less is free may have failed for that: its log is on the same disk."""


def builds_folder(home: Home) -> Path:
    """Return the folder of all builds of `home`, each under its key."""
    return home.root / "builds"


class CachedBuild:
    """One build; its folder appears when it is complete. If it fails, only its log stays."""

    def __init__(
        self,
        home: Home,
        key: str,
        source: Path,
        progress: Progress,
        variables: Mapping[str, str],
        environ: Mapping[str, str],
    ) -> None:
        self.folder = builds_folder(home) / key
        self.partial = self.folder.with_name(f"{key}.partial")
        """The folder for the build's own files, which is removed after it."""
        self._key = key
        self._home = home
        self._source = source
        self._progress = progress
        self.log = self.folder.with_name(f"{key}.log")
        passed = {name: environ[name] for name in _PASSED_ON if name in environ}
        self._environment = {**passed, **variables, "LC_ALL": "C"}

    def complete(self, words: str, carry_out: Callable[[], Path]) -> Path:
        """Return the folder of the build.

        Unless the home has it, `carry_out` makes a folder below `partial` that becomes it. `words` begin the log.
        Raises TargetError.
        """
        if self.folder.is_dir():
            return self.folder
        # the search for abandoned builds does not need this build's lock
        _remove_abandoned(self._home)
        waiting = f"waiting for another pgdyno, which builds {self._source}"
        with self._home.hold_lock(f"build-{self._key}", self._progress, waiting):
            if not self.folder.is_dir():
                self._carry_out(words, carry_out)
        return self.folder

    def _carry_out(self, words: str, carry_out: Callable[[], Path]) -> None:
        ensure_folder(self.folder.parent)
        shutil.rmtree(self.partial, ignore_errors=True)
        ensure_folder(self.partial)
        try:
            with target_errors(self.log, "cannot write"):
                self.log.write_text(f"{words}\n")
            self._use_ccache()
            made = carry_out()
            with target_errors(self.folder, "cannot make"):
                made.rename(self.folder)
        except TargetError as error:
            # what was built so far still takes the space
            if shutil.disk_usage(self.partial).free < _LEAST_FREE_BYTES:
                raise FullDiskError(error.message, hint=no_space_hint(self.folder)) from error
            raise
        finally:
            shutil.rmtree(self.partial, ignore_errors=True)

    def _use_ccache(self) -> None:
        ccache = shutil.which("ccache", path=self._environment.get("PATH"))
        if ccache is None:
            return
        links = self.partial / "compilers"
        with target_errors(links, "cannot make"):
            links.mkdir()
            for name in _CACHED_COMPILERS:
                if shutil.which(name, path=self._environment.get("PATH")):
                    (links / name).symlink_to(ccache)
        self._environment["PATH"] = f"{links}{os.pathsep}{self._environment.get('PATH', os.defpath)}"
        # the next commit of the same sources has another folder, and the same objects
        self._environment |= {"CCACHE_BASEDIR": str(self.partial), "CCACHE_NOHASHDIR": "1"}

    def tell(self, doing: str) -> None:
        """Report the step `doing` ("copying")."""
        self._progress.step(f"{doing} {self._source}")

    def run(self, doing: str, command: Sequence[str], work: Path) -> None:
        """Run `command` in `work`, its output in the log. Raises TargetError with the log's last lines."""
        self.tell(doing)
        with target_errors(self.log, "cannot write"), self.log.open("ab") as log:
            log.write(f"\n$ {' '.join(command)}\n".encode())
        with self.log.open("ab") as log, session(lambda: self._spawn(command, work, log.fileno())) as process:
            status = self._wait(process, doing)
        if status != 0:
            last = _last_lines(self.log)
            message = f"cannot build {self._source}: {doing} failed with status {status}:\n{last}"
            if _NO_SPACE in last:
                raise FullDiskError(message, hint=no_space_hint(self.folder))
            raise TargetError(message, hint=f"see the whole log: {self.log}")

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
                lines = self.log.read_bytes().count(b"\n")
                self._progress.step(f"{doing} {self._source}: {lines:,} lines of its log")
            time.sleep(_POLL_S)
        return status


def compiler_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of `environ` that change what a compiler makes."""
    return {name: environ[name] for name in COMPILER_VARIABLES if environ.get(name)}


def compiler_version(variables: Mapping[str, str], environ: Mapping[str, str]) -> str:
    """Return the first line of the compiler's version; empty if it cannot run, which configure then explains."""
    words = (variables.get("CC") or "cc").split()
    try:
        done = ask([*words, "--version"], env={"PATH": environ.get("PATH", os.defpath)}, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.partition("\n")[0]


def _remove_abandoned(home: Home) -> None:
    builds = builds_folder(home)
    for work in builds.glob("*.partial") if builds.is_dir() else ():
        lock = home.lock(f"build-{work.name.removesuffix('.partial')}")
        with suppress(Timeout, OSError):
            lock.acquire(timeout=0)
            shutil.rmtree(work, ignore_errors=True)
            lock.release()


def _last_lines(log: Path) -> str:
    with log.open(encoding="utf-8", errors="replace") as file:
        return "".join(f"  {line}" for line in deque(file, maxlen=TELLING_LINES)).rstrip("\n")
