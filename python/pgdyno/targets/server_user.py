"""The operating system user that servers run as.

PostgreSQL refuses to run as root. When pgdyno is root, servers run as `nobody`, which exists on every Linux and needs
no preparation, or as the user that `PGDYNO_SERVER_USER` names. Otherwise servers run as the user who started pgdyno.
"""

import os
import pwd
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypedDict

from pgdyno.errors import TargetError


class Relation(StrEnum):
    SAME = "same"
    OTHER = "other"


class PopenUser(TypedDict, total=False):
    """Arguments of Popen that start a child as another user."""

    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True, slots=True)
class Account:
    """A user of this machine that servers run as."""

    name: str
    uid: int
    gid: int
    relation: Relation

    def popen_user(self) -> PopenUser:
        """Return Popen's arguments to start a child as this user; none if pgdyno runs as this user."""
        if self.relation is Relation.SAME:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def take(self, file: Path | int) -> None:
        """Make this user the owner of a path or an open file. Raises OSError."""
        if self.relation is Relation.SAME:
            return
        if isinstance(file, int):
            os.fchown(file, self.uid, self.gid)
        else:
            os.chown(file, self.uid, self.gid, follow_symlinks=False)

    def can_traverse(self, folder: Path) -> bool:
        """Return whether this user may traverse `folder` itself, whatever its parents allow."""
        return self._may_execute(folder.stat())

    def blocked_at(self, path: Path) -> Path | None:
        """Return the topmost existing parent of `path` that this user cannot traverse, or None."""
        for parent in reversed(path.resolve().parents):
            if parent.is_dir() and not self.can_traverse(parent):
                return parent
        return None

    def can_execute(self, file: Path) -> bool:
        """Return whether this user may execute `file`."""
        status = file.stat()
        return stat.S_ISREG(status.st_mode) and self._may_execute(status)

    def _may_execute(self, status: os.stat_result) -> bool:
        # access(2) answers only for pgdyno's own user
        if self.uid == status.st_uid:
            return bool(status.st_mode & stat.S_IXUSR)
        if status.st_gid == self.gid or (self.relation is Relation.SAME and status.st_gid in os.getgroups()):
            return bool(status.st_mode & stat.S_IXGRP)
        return bool(status.st_mode & stat.S_IXOTH)


def find_account(environ: Mapping[str, str] | None = None) -> Account:
    """Return the account for servers of this process. Raises TargetError if no usable one exists."""
    environ = os.environ if environ is None else environ
    uid = os.geteuid()
    if uid != 0:
        return Account(_name_of(uid), uid, os.getegid(), Relation.SAME)
    name = environ.get("PGDYNO_SERVER_USER") or "nobody"
    hint = "set PGDYNO_SERVER_USER to a user of this machine that is not root"
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise TargetError(f"cannot run servers as user {name}: there is no such user", hint=hint) from None
    if entry.pw_uid == 0:
        raise TargetError(f"cannot run servers as user {name}: PostgreSQL refuses to run as root", hint=hint)
    return Account(name, entry.pw_uid, entry.pw_gid, Relation.OTHER)


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
