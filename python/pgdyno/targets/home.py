"""Where pgdyno keeps downloaded servers, running ones and kept clusters.

The home is `PGDYNO_HOME`, else the user's cache folder (`~/.cache/pgdyno`). When pgdyno is root, servers
run as another user and must be able to reach their files. If a parent of the home is closed to that user
(as /root usually is), the parent is left alone, and files live in `/var/cache/pgdyno/<hash of the home>`.
`Home.root` is the one that is used.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import platformdirs
from filelock import FileLock, Timeout

from pgdyno.errors import TargetError
from pgdyno.targets.account import Account, Relation, find_account
from pgdyno.targets.progress import Progress
from pgdyno.targets.storage import ensure_folder, storing

FALLBACK = Path("/var/cache/pgdyno")
"""Where homes are kept whose parents are closed to the server's user."""


@dataclass(frozen=True, slots=True)
class Home:
    """The folders of one home; made by `Home.locate`."""

    path: Path
    """The home as asked for."""
    root: Path
    """Where its files are."""
    account: Account

    @classmethod
    def locate(cls, path: Path | None = None, environ: Mapping[str, str] | None = None) -> Home:
        """The home at `path`, else `PGDYNO_HOME`, else the user's cache; creates its folder.

        Raises TargetError when the folder cannot be made or used.
        """
        environ = os.environ if environ is None else environ
        asked = path or environ.get("PGDYNO_HOME") or platformdirs.user_cache_dir("pgdyno")
        home = Path(asked).expanduser().resolve()
        account = find_account(environ)
        return cls(path=home, root=_choose_root(home, account), account=account)

    @property
    def postgres(self) -> Path:
        """Unpacked servers, a folder a version."""
        return self.root / "postgres"

    @property
    def downloads(self) -> Path:
        """Files on their way, and the list of versions as last seen."""
        return self.root / "downloads"

    @property
    def instances(self) -> Path:
        """A folder for every server that runs, or was left behind."""
        return self.root / "instances"

    @property
    def clusters(self) -> Path:
        """Kept clusters."""
        return self.root / "clusters"

    @property
    def templates(self) -> Path:
        """Clusters as initdb left them, to be copied."""
        return self.root / "templates"

    def lock(self, name: str) -> FileLock:
        """The lock of that name among all processes that use this home; not yet taken."""
        folder = self.root / "locks"
        ensure_folder(folder)
        # not thread-local: what one thread opens may be closed by another
        return FileLock(folder / f"{name}.lock", thread_local=False)

    @contextmanager
    def locked(self, name: str, progress: Progress, waiting_for: str) -> Iterator[None]:
        """Holds the lock `name`; says `waiting_for` when another process has it. Raises TargetError."""
        lock = self.lock(name)
        with storing(Path(lock.lock_file), "cannot lock"):
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
    with storing(home, "cannot open to the server's user"):
        home.chmod(status.st_mode & 0o7777 | 0o011)
    return home


def _fallback_root(home: Path) -> Path:
    root = FALLBACK / hashlib.sha256(os.fsencode(home)).hexdigest()[:16]
    # the owner is checked from the top: what stands there may not be replaceable by others
    for folder in (FALLBACK, root):
        ensure_folder(folder)
        status = folder.lstat()
        if folder.is_symlink() or status.st_uid != os.geteuid() or status.st_mode & 0o022:
            raise TargetError(
                f"cannot use {folder}: it is not a folder that only root may change",
                hint="remove it, or set PGDYNO_HOME to a folder that every user can reach",
            )
    return root
