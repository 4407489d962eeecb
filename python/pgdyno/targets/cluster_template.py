"""Clusters as initdb left them, kept in the home: copies of one take a tenth of the time that initdb needs.

Only clusters that go with their run are copies. They have one system identifier, which PostgreSQL asks about when
a standby finds its primary, and nobody else does; one that is kept has been made by initdb for itself.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from filelock import FileLock, Timeout

from pgdyno.errors import TargetError
from pgdyno.targets.account import Account
from pgdyno.targets.copying import copy_tree
from pgdyno.targets.home import Home
from pgdyno.targets.storage import ensure_folder, storing


class ClusterTemplate:
    """What is kept under one key; whatever goes wrong with it, initdb is there."""

    def __init__(self, home: Home, key: str) -> None:
        """Nothing is there, or made, yet."""
        # files are the server's user's, who may be another next time
        self._folder = home.templates / f"{key}-{home.account.uid}"
        self._account: Account = home.account
        self._home = home

    def copy_to(self, data_directory: Path) -> bool:
        """Makes `data_directory` a copy; False when there is nothing to copy, or it cannot be had."""
        if not self._folder.is_dir():
            return False
        try:
            self._copy(self._folder, data_directory, durable=False)
        except TargetError:
            shutil.rmtree(data_directory, ignore_errors=True)
            return False
        return True

    def keep(self, data_directory: Path) -> None:
        """Keeps a copy of a cluster that initdb made just now, and that never ran; another's copy will do."""
        partial = self._folder.with_name(f"{self._folder.name}.partial")
        lock: FileLock = self._home.lock(f"template-{self._folder.name}")
        try:
            ensure_folder(self._folder.parent)
            with storing(partial, "cannot lock"):
                lock.acquire(timeout=0)
        except (TargetError, Timeout):
            return
        try:
            # of a run that was killed
            shutil.rmtree(partial, ignore_errors=True)
            self._copy(data_directory, partial, durable=True)
            partial.rename(self._folder)
        except (TargetError, OSError):
            shutil.rmtree(partial, ignore_errors=True)
        finally:
            lock.release()

    def _copy(self, source: Path, to: Path, *, durable: bool) -> None:
        with storing(to, "cannot create the folder"):
            to.mkdir(0o700)
            self._account.take(to)
        copy_tree(source, to, self._account, "auto", durable=durable)
