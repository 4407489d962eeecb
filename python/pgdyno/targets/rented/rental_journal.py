"""The rental journal: which resources pgdyno creates or borrows for one run, noted before each request.

Because the note comes first, a process that is killed leaves no unknown resources. A journal is a file of JSON lines in
pgdyno's home, `PROVIDER/RUN.jsonl`. Each line is on disk (fsync) before the request that it announces. The journal is
removed once all its resources are.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from psycopg.conninfo import make_conninfo

from pgdyno.targets.home import ensure_folder, target_errors
from pgdyno.targets.lock import JournalLock

_STAMP = "%Y-%m-%dT%H:%M:%SZ"
_NAMED = "%Y%m%d-%H%M%S"
_STAMPED = len("20261122-093000")


def stamp(moment: datetime) -> str:
    """Format a time as `2026-11-21T20:00:00Z`, which providers also accept in tags."""
    return moment.astimezone(UTC).strftime(_STAMP)


def moment_of(text: str) -> datetime | None:
    """Return the time that `stamp` wrote; None if the text has another format."""
    try:
        return datetime.strptime(text, _STAMP).replace(tzinfo=UTC)
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class Place:
    """How to reach a running server or generator."""

    host: str
    port: int
    user: str
    zone: str
    instance: str
    """The type that it got, which may be one of `instead`, or the host of a pool."""
    version: str
    """The version that the service reports."""
    tls: str = "verify-full"
    """libpq's sslmode: `verify-ca` for a certificate that is its own authority, `disable` without one."""
    inner: str = ""
    """The server's address in its own network if that differs from `host`, else empty."""
    login: str = ""
    """The account for SSH that pgdyno created; empty without SSH."""
    ssh_port: int = 0

    def dsn(self, passwords: Path, tls_root: Path) -> str:
        """Return a connection string without a password; libpq verifies the server's certificate if it has one."""
        checked = {} if self.tls == "disable" else {"sslrootcert": str(tls_root)}
        return make_conninfo(
            host=self.host,
            port=str(self.port),
            user=self.user,
            dbname="postgres",
            passfile=str(passwords),
            sslmode=self.tls,
            **checked,
        )


@dataclass(frozen=True, slots=True)
class NotedResource:
    """A resource that was created or borrowed, or that was about to be."""

    kind: str
    name: str
    region: str
    target: str
    ssh: Mapping[str, Any] | None = None
    """How to log in to a host of a pool, as an `SshSpec`."""


@dataclass(slots=True)
class Journal:
    path: Path
    """Its file, named after the run."""
    plan: str
    digest: str
    """The digest of what the plan rents, by which a changed plan is recognized."""
    expires: datetime
    """The time after which `pgdyno reap --expired` removes it."""
    account: str = ""
    """The account that owns the resources; empty for hosts of a pool."""
    owner: str = ""
    """The identity that rents; empty if unknown."""
    more_tags: Mapping[str, str] = field(default_factory=dict)
    """The plan's own tags."""
    noted: list[NotedResource] = field(default_factory=list)
    ready: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The fields of the `Place` of each server and generator, by target."""
    snapshots: dict[tuple[str, str], str] = field(default_factory=dict)
    """Names of the snapshots that pgdyno has taken, by target and dataset."""
    _lock: JournalLock = field(default_factory=JournalLock, repr=False)

    @classmethod
    def begin(
        cls,
        folder: Path,
        plan: str,
        digest: str,
        expires: datetime,
        *,
        account: str = "",
        owner: str = "",
        more_tags: Mapping[str, str] | None = None,
    ) -> Journal:
        """Create a journal in `folder`, and lock it. Raises TargetError."""
        ensure_folder(folder)
        # letters, digits and single dashes, which RDS requires for its names
        run = f"{datetime.now(UTC):{_NAMED}}-{secrets.token_hex(3)}"
        given = dict(more_tags or {})
        journal = cls(folder / f"{run}.jsonl", plan, digest, expires, account, owner, given)
        head = {"run": run, "plan": plan, "digest": digest, "account": account, "owner": owner, "tags": given}
        journal._write("run", **head, expires=stamp(expires))
        journal.hold()
        with target_errors(folder, "cannot write"):
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        return journal

    @property
    def run(self) -> str:
        return self.path.stem

    @property
    def begun(self) -> datetime:
        """The start of the run to a second, from its name."""
        return datetime.strptime(self.run[:_STAMPED], _NAMED).replace(tzinfo=UTC)

    @property
    def keys(self) -> Path:
        """The folder with the keys and certificates of its hosts, which only its owner can read."""
        return self.path.with_suffix(".keys")

    @property
    def passwords(self) -> Path:
        """The password file (libpq's format) of the run's servers, which only its owner can read."""
        return self.path.with_suffix(".pgpass")

    def hold(self) -> bool:
        """Locks it until the process ends; returns False if another process has the lock, or closed it."""
        return self._lock.hold(self.path)

    def release(self) -> None:
        self._lock.release()

    def note_intent(
        self, kind: str, name: str, region: str, target: str, *, ssh: Mapping[str, Any] | None = None
    ) -> None:
        """Note a resource before it is created or borrowed; the note is on disk on return. Raises TargetError."""
        self._write("making", kind=kind, name=name, region=region, target=target, **({"ssh": ssh} if ssh else {}))
        self.noted.append(NotedResource(kind, name, region, target, ssh))

    def forget(self, target: str) -> None:
        """Note that nothing of `target` exists any longer. Raises TargetError."""
        self._write("forgotten", target=target)
        self.noted = [each for each in self.noted if each.target != target]

    def is_ready(self, target: str, place: Place) -> None:
        """Note how to reach the server of `target`. Raises TargetError."""
        self.ready[target] = asdict(place)
        self._write("ready", target=target, place=self.ready[target])

    def is_released(self, target: str) -> None:
        """Note that the server of `target` is being removed: another run must not use it. Raises TargetError."""
        self._write("released", target=target)

    def snapshot_taken(self, target: str, dataset: str, name: str) -> None:
        """Note a complete snapshot of the server of `target` with `dataset`. Raises TargetError."""
        self._write("snapshot", target=target, dataset=dataset, name=name)
        self.snapshots[target, dataset] = name

    def prolong(self, expires: datetime) -> None:
        """Note another expiry. Raises TargetError."""
        self._write("expires", expires=stamp(expires))
        self.expires = expires

    def keep_password(self, place: Place, password: str) -> None:
        """Write the password for `place` to the password file. Raises TargetError."""
        fields = (place.host, str(place.port), "*", place.user)
        begin = ":".join(each.replace("\\", "\\\\").replace(":", "\\:") for each in fields) + ":"
        with target_errors(self.passwords, "cannot write"):
            before = self.passwords.read_text(encoding="utf-8").splitlines() if self.passwords.exists() else []
            lines = [*(line for line in before if not line.startswith(begin)), f"{begin}{password}"]
            unfinished = self.passwords.with_name(f".{self.passwords.name}.{os.getpid()}")
            _write_own(unfinished, "\n".join(lines) + "\n")
            unfinished.replace(self.passwords)

    def keep_key(self, name: str, text: str) -> None:
        """Write a file of `keys`. Raises TargetError."""
        with target_errors(self.keys, "cannot write"):
            ensure_folder(self.keys)
            self.keys.chmod(0o700)
            _write_own(self.keys / name, text)

    def close(self) -> None:
        """Remove the journal with its passwords and keys, once no resource is left. Raises TargetError."""
        with target_errors(self.path, "cannot remove"):
            self.passwords.unlink(missing_ok=True)
            if self.keys.is_dir():
                shutil.rmtree(self.keys)
            self.path.unlink(missing_ok=True)
        self.release()

    def _write(self, what: str, **line: object) -> None:
        text = json.dumps({"at": stamp(datetime.now(UTC)), "what": what, **line}) + "\n"
        with target_errors(self.path, "cannot write"):
            handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.write(handle, text.encode())
                os.fsync(handle)
            finally:
                os.close(handle)


def _write_own(file: Path, text: str) -> None:
    handle = os.open(file, os.O_WRONLY | os.O_TRUNC | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(text)


def journals(folder: Path) -> Iterator[Journal]:
    """Yield all journals in `folder`, the newest first. Raises TargetError."""
    for path in sorted(folder.glob("*.jsonl"), reverse=True):
        with target_errors(path, "cannot read"):
            try:
                lines = [_parse_line(line) for line in path.read_bytes().splitlines()]
            except FileNotFoundError:
                # another process has just removed the last resource
                continue
        # Without a whole first line, nothing was created.
        if lines and (head := lines[0]) is not None:
            expires = moment_of(head["expires"]) or datetime.now(UTC)
            journal = Journal(path, head["plan"], head["digest"], expires, head["account"])
            journal.owner, journal.more_tags = head.get("owner", ""), head.get("tags", {})
            for line in filter(None, lines[1:]):
                _take(journal, line)
            yield journal


def _take(journal: Journal, line: dict[str, Any]) -> None:
    match line["what"]:
        case "making":
            journal.noted.append(
                NotedResource(line["kind"], line["name"], line["region"], line["target"], line.get("ssh"))
            )
        case "forgotten":
            journal.noted = [each for each in journal.noted if each.target != line["target"]]
        case "ready":
            journal.ready[line["target"]] = line["place"]
        case "released":
            journal.ready.pop(line["target"], None)
        case "snapshot":
            journal.snapshots[line["target"], line["dataset"]] = line["name"]
        case "expires":
            journal.expires = moment_of(line["expires"]) or journal.expires


def _parse_line(line: bytes) -> dict[str, Any] | None:
    """Return the note; None for an incomplete line, which announced a resource that was not yet requested."""
    try:
        found: dict[str, Any] = json.loads(line)
    except ValueError:
        return None
    return found
