"""The folder where pgdyno keeps downloaded servers, running instances and kept clusters.

The home is `PGDYNO_HOME`, else the user's cache folder (`~/.cache/pgdyno`). When pgdyno is root, servers run as another
user and must be able to reach their files. If that user cannot traverse a parent of the home (such as /root), pgdyno
leaves the parent's mode unchanged and keeps files in `/var/cache/pgdyno/<hash of the home>`. `Home.root` is the folder
in use.

The module also writes files for the home, and defines how progress is reported.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import platformdirs
from filelock import FileLock, Timeout

from pgdyno.errors import TargetError
from pgdyno.mounts import exists, expand_home
from pgdyno.targets.server_user import Account, Relation, find_account


def write_private(path: Path, text: str, account: Account) -> None:
    """Replace `path` by a file with `text`: mode 0600, owned by `account`. Raises TargetError.

    The file appears when it is complete, because a server deletes its trigger file as soon as it sees it. It follows no
    link: the folder may belong to the server's user, and pgdyno may be root.
    """
    partial = path.with_name(f".{path.name}.partial")
    with target_errors(path, "cannot write"):
        partial.unlink(missing_ok=True)
        handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            account.take(handle)
        partial.replace(path)


class FullDiskError(TargetError):
    """A file system has no space left."""


_FULL = {errno.ENOSPC, errno.EDQUOT}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}


@contextmanager
def target_errors(path: Path, doing: str) -> Iterator[None]:
    """Convert an OSError of the block into a TargetError: `doing` ("cannot write"), `path`, the reason, the remedy.

    The block must contain file operations only: network errors are OSErrors too.
    """
    try:
        yield
    except OSError as error:
        raise storage_error(error, path, doing) from error


def storage_error(error: OSError, path: Path, doing: str) -> TargetError:
    """Return the TargetError for `error`, which occurred while `doing` something to `path`."""
    reason = (error.strerror or str(error)).lower()
    hint = None
    if error.errno in _FULL:
        return FullDiskError(f"{doing} {path}: {reason}", hint=no_space_hint(path))
    if error.errno in _FORBIDDEN:
        hint = "set PGDYNO_HOME to a folder that can be written to"
    return TargetError(f"{doing} {path}: {reason}", hint=hint)


def no_space_hint(path: Path) -> str:
    """Return the remedy for a full file system of `path`."""
    return f"free space where {path} is, or set PGDYNO_HOME to a folder with more (a server needs about 200 MiB)"


def ensure_folder(path: Path, mode: int = 0o755) -> None:
    """Create `path` and its missing parents with `mode`, whatever the umask is.

    Servers may run as another user than pgdyno, who must be able to traverse their parent folders. Existing folders
    keep their mode. Raises TargetError naming the folder.
    """
    missing = []
    at = path
    while not exists(at) and at != at.parent:
        missing.append(at)
        at = at.parent
    for folder in reversed(missing):
        with target_errors(folder, "cannot create the folder"):
            try:
                folder.mkdir(mode)
            except FileExistsError:
                if not folder.is_dir():
                    raise
            else:
                folder.chmod(mode)
    if not path.is_dir():
        raise TargetError(f"cannot use {path}: not a folder", hint="set PGDYNO_HOME to another folder")


def write_whole(path: Path, content: bytes) -> None:
    """Write `path` atomically: a reader sees all of `content` or the previous file."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    with target_errors(path, "cannot write"):
        try:
            unfinished.write_bytes(content)
            unfinished.replace(path)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise


class Progress(Protocol):
    """Receives the progress of preparing a server."""

    def step(self, text: str) -> None:
        """Begins a step; `text` is lowercase and has no full stop: "unpacking PostgreSQL 18.6"."""

    def bytes(self, done: int, total: int | None) -> None:
        """Report `done` of the step's `total` bytes; None if the server does not announce the size."""

    def rows(self, done: int, total: int, per_s: float, left_s: float) -> None:
        """Report `done` of the dataset's `total` rows, `per_s` rows per second, and the `left_s` seconds left."""


class SilentProgress:
    """Shows no progress."""

    def step(self, text: str) -> None:
        """Ignores the step."""

    def bytes(self, done: int, total: int | None) -> None:
        """Ignores the count."""

    def rows(self, done: int, total: int, per_s: float, left_s: float) -> None:
        """Ignores the count."""


FALLBACK = Path("/var/cache/pgdyno")
"""The location of homes whose parents the server's user cannot traverse."""


@dataclass(frozen=True, slots=True)
class Home:
    """The folders of one home; create it by `Home.locate`."""

    path: Path
    """The requested home."""
    root: Path
    """The folder that contains the files."""
    account: Account

    @classmethod
    def locate(cls, path: Path | None = None, environ: Mapping[str, str] | None = None) -> Home:
        """Return the home at `path`, else `PGDYNO_HOME`, else the user's cache; create its folder.

        Raises TargetError if the folder cannot be created or used.
        """
        environ = os.environ if environ is None else environ
        asked = path or environ.get("PGDYNO_HOME") or platformdirs.user_cache_dir("pgdyno")
        home = expand_home(asked).resolve()
        account = find_account(environ)
        return cls(path=home, root=_choose_root(home, account), account=account)

    @property
    def postgres(self) -> Path:
        """Unpacked servers, one folder per version."""
        return self.root / "postgres"

    @property
    def downloads(self) -> Path:
        """Incomplete downloads, and the last list of versions."""
        return self.root / "downloads"

    @property
    def instances(self) -> Path:
        """One folder per server that runs or was left behind."""
        return self.root / "instances"

    @property
    def clusters(self) -> Path:
        return self.root / "clusters"

    @property
    def templates(self) -> Path:
        """Clusters as initdb created them, to be copied."""
        return self.root / "templates"

    def lock(self, name: str) -> FileLock:
        """Return a lock, not yet acquired, that all processes with this home share by its name."""
        folder = self.root / "locks"
        ensure_folder(folder)
        # not thread-local: one thread may close what another opened
        return FileLock(folder / f"{name}.lock", thread_local=False)

    @contextmanager
    def hold_lock(self, name: str, progress: Progress, waiting_for: str) -> Iterator[None]:
        """Hold the lock `name`; report `waiting_for` if another process holds it. Raises TargetError."""
        lock = self.lock(name)
        with target_errors(Path(lock.lock_file), "cannot lock"):
            try:
                lock.acquire(timeout=0)
            except Timeout:
                progress.step(waiting_for)
                lock.acquire()
        try:
            yield
        finally:
            lock.release()


def _choose_root(home: Path, account: Account) -> Path:
    if account.relation is Relation.SAME:
        ensure_folder(home)
        return home
    if account.blocked_at(home) is not None:
        return _fallback_root(home)
    ensure_folder(home)
    if account.can_traverse(home):
        return home
    status = home.stat()
    if status.st_uid != os.geteuid():
        return _fallback_root(home)
    with target_errors(home, "cannot open to the server's user"):
        home.chmod(status.st_mode & 0o7777 | 0o011)
    return home


def _fallback_root(home: Path) -> Path:
    root = FALLBACK / hashlib.sha256(os.fsencode(home)).hexdigest()[:16]
    # the owner is checked from the top down, so that no other user can replace a parent
    for folder in (FALLBACK, root):
        ensure_folder(folder)
        status = folder.lstat()
        if folder.is_symlink() or status.st_uid != os.geteuid() or status.st_mode & 0o022:
            raise TargetError(
                f"cannot use {folder}: it is not a folder that only root may change",
                hint="remove it, or set PGDYNO_HOME to a folder that every user can reach",
            )
    return root
