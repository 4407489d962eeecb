"""What was made at Amazon: kinds of resources, their tags, and the journal written before each is made.

What was made at Amazon, written down before it is made: a process that is killed leaves nothing unknown.

A journal is a file of JSON lines in pgdyno's home, `aws/RUN.jsonl`. Each line is on the disk (fsync) before what it
announces is asked for. When all of it is gone, so is the journal.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from pgdyno.targets.home import ensure_folder, storing
from pgdyno.targets.rental import stamp


class Kind(StrEnum):
    """In the order of removal: what stands first uses what stands behind it."""

    DB_INSTANCE = "database instance"
    DB_CLUSTER = "database cluster"
    INSTANCE = "instance"
    DB_SNAPSHOT = "database snapshot"
    CLUSTER_SNAPSHOT = "cluster snapshot"
    SNAPSHOT = "snapshot"
    VOLUME = "volume"
    DB_PARAMETERS = "parameter group"
    CLUSTER_PARAMETERS = "cluster parameter group"
    SECURITY_GROUP = "security group"


ORDER = tuple(Kind)
FREE = frozenset({Kind.DB_PARAMETERS, Kind.CLUSTER_PARAMETERS, Kind.SECURITY_GROUP})
"""What costs nothing while it is there."""


@dataclass(frozen=True, slots=True)
class Resource:
    """Something at Amazon that bears our tags, or stands in a journal and is there."""

    kind: Kind
    id: str
    """What it is removed by."""
    name: str
    """As the journal has it."""
    region: str
    run: str
    expires: datetime | None
    """None: its tag cannot be read."""
    state: str = ""
    detail: str = ""
    """What it is paid by: an instance class, a size."""

    @property
    def words(self) -> str:
        """`database instance pgdyno-… (db.r8g.large, creating), eu-central-1`."""
        more = ", ".join(each for each in (self.detail, self.state) if each)
        name = self.name if self.id == self.name else f"{self.name} {self.id}"
        return f"{self.kind} {name}{f' ({more})' if more else ''}, {self.region}"


RUN = "pgdyno:run"
EXPIRES = "pgdyno:expires"
TARGET = "pgdyno:target"


def tags(run: str, expires: datetime, target: str, name: str) -> list[dict[str, str]]:
    """As RDS and EC2 take them."""
    values = {RUN: run, EXPIRES: stamp(expires), TARGET: target, "Name": name}
    return [{"Key": key, "Value": value} for key, value in values.items()]


def by_key(listed: Iterable[Mapping[str, str]] | None) -> dict[str, str]:
    """What Amazon answers, by key."""
    return {each["Key"]: each.get("Value", "") for each in listed or ()}


def moment_of(text: str) -> datetime | None:
    """What `stamp` wrote; None when somebody else did."""
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        return None


FOLDER = "aws"
_NAMED = "%Y%m%d-%H%M%S"
_STAMPED = len("20261122-093000")


def new_run() -> str:
    """A name for a run that no other has: letters, digits and single dashes, as RDS wants its names."""
    return f"{datetime.now(UTC):{_NAMED}}-{secrets.token_hex(3)}"


@dataclass(frozen=True, slots=True)
class Noted:
    """One thing that was made, or was about to be."""

    kind: Kind
    name: str
    region: str
    target: str


@dataclass(slots=True)
class Journal:
    """Of one run."""

    path: Path
    run: str
    plan: str
    digest: str
    """Of the plan's targets at Amazon: a plan that was changed since is another."""
    account: str
    expires: datetime
    noted: list[Noted] = field(default_factory=list)
    ready: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Where each target's server is, by the target's name, and the generator; once it is there."""
    _held: int | None = field(default=None, repr=False)

    @classmethod
    def begin(cls, root: Path, plan: str, digest: str, account: str, expires: datetime) -> Journal:
        """A new one below pgdyno's home `root`. Raises TargetError."""
        folder = root / FOLDER
        ensure_folder(folder)
        run = new_run()
        journal = cls(folder / f"{run}.jsonl", run, plan, digest, account, expires)
        journal._write(
            {"what": "run", "run": run, "plan": plan, "digest": digest, "account": account, "expires": stamp(expires)}
        )
        journal.hold()
        with storing(folder, "cannot write"):
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        return journal

    @property
    def begun(self) -> datetime:
        """To a second, as its name says."""
        return datetime.strptime(self.run[:_STAMPED], _NAMED).replace(tzinfo=UTC)

    def making(self, kind: Kind, name: str, region: str, target: str) -> None:
        """Notes what is about to be made; returns when that is on the disk. Raises TargetError."""
        noted = Noted(kind, name, region, target)
        self._write({"what": "making", "kind": kind.value, "name": name, "region": region, "target": target})
        self.noted.append(noted)

    def is_ready(self, target: str, place: dict[str, Any]) -> None:
        """Notes where the server of `target` is. Raises TargetError."""
        self._write({"what": "ready", "target": target, "place": place})
        self.ready[target] = place

    def prolong(self, expires: datetime) -> None:
        """Notes another expiry. Raises TargetError."""
        self._write({"what": "expires", "expires": stamp(expires)})
        self.expires = expires

    @property
    def passwords(self) -> Path:
        """The password file (libpq's form) of its servers; closed to others."""
        return self.path.with_suffix(".pgpass")

    @property
    def keys(self) -> Path:
        """The folder with its hosts' keys; closed to others."""
        return self.path.with_suffix(".keys")

    def hold(self) -> bool:
        """Keeps others from closing it, up to the end of this process; False when another holds it."""
        if self._held is not None:
            return True
        try:
            handle = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return False
        self._held = handle
        return True

    def release(self) -> None:
        """Lets others close it."""
        if self._held is not None:
            os.close(self._held)
            self._held = None

    def close(self) -> None:
        """Removes it: all is gone. Raises TargetError."""
        with storing(self.path, "cannot remove"):
            self.passwords.unlink(missing_ok=True)
            if self.keys.is_dir():
                shutil.rmtree(self.keys)
            self.path.unlink(missing_ok=True)
        self.release()

    def _write(self, line: dict[str, Any]) -> None:
        text = json.dumps({"at": stamp(datetime.now(UTC)), **line}) + "\n"
        with storing(self.path, "cannot write"):
            handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.write(handle, text.encode())
                os.fsync(handle)
            finally:
                os.close(handle)


def journals(root: Path) -> Iterator[Journal]:
    """All of the home `root`, the newest first. Raises TargetError."""
    folder = root / FOLDER
    if not folder.is_dir():
        return
    for path in sorted(folder.glob("*.jsonl"), reverse=True):
        journal = read_journal(path)
        if journal is not None:
            yield journal


def read_journal(path: Path) -> Journal | None:
    """The journal at `path`; None when its first line was never written whole, so that nothing was made."""
    with storing(path, "cannot read"):
        lines = [_parsed(line) for line in path.read_bytes().splitlines()]
    if not lines or lines[0] is None:
        return None
    head = lines[0]
    expires = moment_of(head["expires"])
    assert expires is not None
    journal = Journal(path, head["run"], head["plan"], head["digest"], head["account"], expires)
    for line in lines[1:]:
        # a line that was cut off announced something that was not asked for yet
        if line is not None:
            _take(journal, line)
    return journal


def _take(journal: Journal, line: dict[str, Any]) -> None:
    match line["what"]:
        case "making":
            journal.noted.append(Noted(Kind(line["kind"]), line["name"], line["region"], line["target"]))
        case "ready":
            journal.ready[line["target"]] = line["place"]
        case "expires":
            journal.expires = moment_of(line["expires"]) or journal.expires


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(line)
    except ValueError:
        return None
    return found
