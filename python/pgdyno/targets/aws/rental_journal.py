"""The rental journal: which resources pgdyno creates at Amazon, noted before each request.

Because the note comes first, a process that is killed leaves no unknown resources. A journal is a file of JSON lines in
pgdyno's home, `aws/RUN.jsonl`. Each line is on disk (fsync) before the request that it announces. The journal is
removed once all its resources are.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from pgdyno.targets import rental
from pgdyno.targets.home import ensure_folder, storing
from pgdyno.targets.rental import stamp


class Kind(StrEnum):
    """Kinds of resources in the order of removal: a kind may use the kinds after it."""

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
    PLACEMENT_GROUP = "placement group"
    SCHEDULE = "schedule"
    """The dead-man switch of a database, which goes after it."""


ORDER = tuple(Kind)
FREE = frozenset(
    {Kind.DB_PARAMETERS, Kind.CLUSTER_PARAMETERS, Kind.SECURITY_GROUP, Kind.PLACEMENT_GROUP, Kind.SCHEDULE}
)
"""Kinds that cost nothing."""


@dataclass(frozen=True, slots=True)
class Resource:
    """An existing resource at Amazon that has pgdyno's tags or that a journal names."""

    kind: Kind
    id: str
    """The identifier that a request for its removal needs."""
    name: str
    region: str
    run: str
    expires: datetime | None
    """The expiry of its tag; None if the tag is missing or invalid."""
    state: str = ""
    owner: str = ""
    """The identity that created it; empty if its tag is missing."""
    instance: str = ""
    """The instance class, which determines the price; empty for others."""
    size_gb: int | None = None
    """The size of its storage; None without one of its own."""
    storage: str = ""
    """The type of that storage: gp3; empty for a snapshot."""
    iops: int = 0
    """The IOPS of that storage, as far as its description has them."""
    throughput: int = 0
    """The MB/s of that storage, as far as its description has them."""

    @property
    def words(self) -> str:
        """A description such as `database instance pgdyno-… (db.r8g.large, creating), eu-central-1`."""
        size = "" if self.size_gb is None else f"{self.size_gb} GB {self.storage}".rstrip()
        more = ", ".join(each for each in (self.instance, size, self.state) if each)
        name = self.name if self.id == self.name else f"{self.name} {self.id}"
        return f"{self.kind} {name}{f' ({more})' if more else ''}, {self.region}"


RUN = "pgdyno:run"
EXPIRES = "pgdyno:expires"
TARGET = "pgdyno:target"
OWNER = "pgdyno:owner"


def by_key(listed: Iterable[Mapping[str, str]] | None) -> dict[str, str]:
    """Return the values of a list of tags, by key."""
    return {each["Key"]: each.get("Value", "") for each in listed or ()}


def moment_of(text: str) -> datetime | None:
    """Return the time that `stamp` wrote; None if the text has another format."""
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        return None


FOLDER = "aws"


@dataclass(frozen=True, slots=True)
class Noted:
    """A resource that was created, or that was about to be."""

    kind: Kind
    name: str
    region: str
    target: str


@dataclass(slots=True)
class Journal(rental.Journal):
    noted: list[Noted] = field(default_factory=list)
    snapshots: dict[tuple[str, str], str] = field(default_factory=dict)
    """Names of the snapshots that pgdyno has taken, by target and dataset."""
    owner: str = ""
    """The identity that rents; empty in journals of earlier versions."""
    more_tags: Mapping[str, str] = field(default_factory=dict)
    """The plan's own tags."""

    @classmethod
    def begin(
        cls,
        root: Path,
        plan: str,
        digest: str,
        account: str,
        expires: datetime,
        owner: str = "",
        more_tags: Mapping[str, str] | None = None,
    ) -> Journal:
        """Create a journal below pgdyno's home `root`. Raises TargetError."""
        folder = root / FOLDER
        ensure_folder(folder)
        path, given = folder / f"{rental.new_run()}.jsonl", dict(more_tags or {})
        journal = cls(path, plan, digest, expires, account, owner=owner, more_tags=given)
        head = {"what": "run", "run": journal.run, "plan": plan, "digest": digest, "account": account}
        journal._write({**head, "expires": stamp(expires), "owner": owner, "tags": given})
        journal.hold()
        with storing(folder, "cannot write"):
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        return journal

    def tags(self, target: str, name: str) -> list[dict[str, str]]:
        """Return the tags of a resource of `target` in the form that RDS and EC2 accept."""
        ours = {RUN: self.run, EXPIRES: stamp(self.expires), TARGET: target, "Name": name}
        values = {**self.more_tags, **ours, **({OWNER: self.owner} if self.owner else {})}
        return [{"Key": key, "Value": value} for key, value in values.items()]

    def making(self, kind: Kind, name: str, region: str, target: str) -> None:
        """Note a resource before it is created; the note is on disk on return. Raises TargetError."""
        noted = Noted(kind, name, region, target)
        self._write({"what": "making", "kind": kind.value, "name": name, "region": region, "target": target})
        self.noted.append(noted)

    def is_ready(self, target: str, place: dict[str, Any]) -> None:
        """Note how to reach the server of `target`. Raises TargetError."""
        self._write({"what": "ready", "target": target, "place": place})
        self.ready[target] = place

    def is_released(self, target: str) -> None:
        """Note that the server of `target` is being removed: another run must not use it. Raises TargetError."""
        self._write({"what": "released", "target": target})

    def snapshot_taken(self, target: str, dataset: str, name: str) -> None:
        """Note a complete snapshot of the server of `target` with `dataset`. Raises TargetError."""
        self._write({"what": "snapshot", "target": target, "dataset": dataset, "name": name})
        self.snapshots[target, dataset] = name

    def prolong(self, expires: datetime) -> None:
        """Note another expiry. Raises TargetError."""
        self._write({"what": "expires", "expires": stamp(expires)})
        self.expires = expires

    @property
    def passwords(self) -> Path:
        """The password file (libpq's format) of the run's servers, which only its owner can read."""
        return self.path.with_suffix(".pgpass")

    @property
    def keys(self) -> Path:
        return self.path.with_suffix(".keys")

    def close(self) -> None:
        """Remove the journal with its passwords and keys, once no resource is left. Raises TargetError."""
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
    """Yield all journals of the home `root`, the newest first. Raises TargetError."""
    folder = root / FOLDER
    if not folder.is_dir():
        return
    for path in sorted(folder.glob("*.jsonl"), reverse=True):
        journal = read_journal(path)
        if journal is not None:
            yield journal


def read_journal(path: Path) -> Journal | None:
    """Return the journal at `path`; None if its first line is incomplete: nothing was created. Raises TargetError."""
    with storing(path, "cannot read"):
        lines = [_parse_line(line) for line in path.read_bytes().splitlines()]
    if not lines or lines[0] is None:
        return None
    head = lines[0]
    expires = moment_of(head["expires"])
    assert expires is not None
    journal = Journal(path, head["plan"], head["digest"], expires, head["account"])
    journal.owner, journal.more_tags = head.get("owner", ""), head.get("tags", {})
    for line in lines[1:]:
        # An incomplete line announced a resource that was not yet requested.
        if line is not None:
            _take(journal, line)
    return journal


def _take(journal: Journal, line: dict[str, Any]) -> None:
    match line["what"]:
        case "making":
            journal.noted.append(Noted(Kind(line["kind"]), line["name"], line["region"], line["target"]))
        case "ready":
            journal.ready[line["target"]] = line["place"]
        case "released":
            journal.ready.pop(line["target"], None)
        case "snapshot":
            journal.snapshots[line["target"], line["dataset"]] = line["name"]
        case "expires":
            journal.expires = moment_of(line["expires"]) or journal.expires


def _parse_line(line: bytes) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(line)
    except ValueError:
        return None
    return found
