"""Parts of a plan's schema: events, the probe, the load on standbys, snapshots, searches."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, model_validator

from pgdyno.effect import Effect, effect_of_sql
from pgdyno.errors import InvalidValueError
from pgdyno.plan.values import Model, Name, read_by
from pgdyno.records.promise import parse_latency, parse_promise
from pgdyno.units import parse_duration_s

ACTIONS = ("checkpoint", "restart", "kill", "promote", "pause", "vacuum", "backup")
DROPPING = frozenset({"restart", "kill", "promote"})
"""Events that end sessions."""
ON_PROCESSES = frozenset({"restart", "kill", "pause"})
"""Events that need the server's processes, not only a connection."""


def action(value: object) -> object:
    """Validate `do` of an event. Raises ValueError."""
    if isinstance(value, dict) and "command" in value and value.keys() <= {"command", "password"}:
        command = value["command"]
        if not isinstance(command, str) or not command.strip():
            raise ValueError('write the command as text: do = { command = "sync" }')
        if not isinstance(value.get("password", False), bool):
            raise ValueError('write password = true, and PGPASSWORD is set: do = { command = "...", password = true }')
        return value
    if isinstance(value, dict) and value.keys() == {"sql"}:
        if not isinstance(value["sql"], str) or not value["sql"].strip():
            raise ValueError('write statements, or the name of a file: do = { sql = "REINDEX TABLE t" }')
        return value
    if value in ACTIONS:
        return value
    near = get_close_matches(value.lower(), ACTIONS, n=1) if isinstance(value, str) else []
    meant = f"did you mean {near[0]}? " if near else ""
    others = '{ sql = "..." } or { command = "..." }'
    raise InvalidValueError("is not known", f"{meant}write one of {', '.join(ACTIONS)}, {others}")


def patience(value: object, info: ValidationInfo) -> object:
    """Validate `trial.reconnect`; durations are in seconds, as in a resolved plan. Raises ValueError."""
    if value is None or value in ("off", "always") or info.context == "resolved":
        return value
    if not isinstance(value, str):
        raise ValueError('write "off", "always" or a time such as "30s"')
    seconds = parse_duration_s(value)
    if seconds <= 0:
        raise InvalidValueError("must be more than 0s", 'to disable it, write "off"')
    return seconds


LOCAL_HZ = 10
REMOTE_HZ = 1
MOST_HZ = 100
"""pgprobe's limit."""
STATEMENTS = 20
"""pgprobe's default."""


def _log(value: object) -> object:
    if isinstance(value, bool) or (isinstance(value, str) and value.startswith("/")):
        return value
    raise ValueError('write the whole path of the log, such as "/var/log/postgresql/main.log", or true or false')


MOST_QUERIES = 8


def _every(text: str) -> str:
    if parse_duration_s(text) < FEWEST_S:
        raise InvalidValueError(f"is below {FEWEST_S:g} s", 'such as every = "1s"')
    return text


FEWEST_S = 0.1


def _reads(text: str) -> str:
    if not text.strip():
        raise InvalidValueError("is empty", 'such as sql = "SELECT count(*) FROM jobs"')
    if effect_of_sql(text) is Effect.WRITES:
        raise InvalidValueError("writes, and the probe's sessions only read", "use a query that only reads")
    return text


class ProbeQuery(Model):
    """A query of the user whose result is a series of the probe."""

    name: Name
    sql: Annotated[str, AfterValidator(_reads)]
    """Returns one number, in the first column of the first row; NULL is a gap."""
    every: Annotated[str, AfterValidator(_every)] = "1s"


class ProbeSpec(Model):
    """What the probe samples during every trial, as far as the target allows it."""

    enabled: bool = True
    waits_hz: Annotated[int, Field(ge=0, le=MOST_HZ)] | None = None
    """Session samples per second; None: 10 on this machine, 1 over the network. 0: none."""
    host: bool = True
    """Sample the server's host and its processes: this machine, or one over SSH (`target.NAME.ssh`)."""
    server: bool = True
    """Sample the server over SQL."""
    log: Annotated[bool | str, BeforeValidator(_log)] = True
    """Read the server's log on its host: true for the path that the server reports, or a path."""
    statements: Annotated[int, Field(ge=0)] = STATEMENTS
    """Number of statements of pg_stat_statements to record every 10 s, if the database has it. 0: none."""
    standbys: bool = True
    """Sample the standbys of a target that pgdyno runs, each over SQL."""
    profile: bool = False
    """After the trials, run perf during one more short load of each arm, on servers that pgdyno starts."""
    plans: bool = False
    """Before each trial, EXPLAIN the statements of the workload's scripts, and keep their query plans."""

    query: Annotated[list[ProbeQuery], Field(max_length=MOST_QUERIES)] = []
    """Own queries, each in a read-only session of its own on the workload's database."""

    @model_validator(mode="after")
    def _queries_have_a_server_and_names(self) -> ProbeSpec:
        names = [each.name for each in self.query]
        if len(set(names)) < len(names):
            raise ValueError(f"{next(name for name in names if names.count(name) > 1)} is the name of two queries")
        if names and not (self.enabled and self.server):
            raise ValueError("query needs the probe of the server, which enabled = false or server = false excludes")
        return self

    @model_validator(mode="after")
    def _log_is_on_the_host(self) -> ProbeSpec:
        if isinstance(self.log, str) and not self.host:
            raise ValueError("the log is on the server's host, which host = false excludes")
        return self

    @model_validator(mode="after")
    def _plans_and_profiles_are_of_the_probe(self) -> ProbeSpec:
        wanted = "plans" if self.plans else "profile" if self.profile else None
        if wanted is not None and not self.enabled:
            raise ValueError(f"{wanted} = true needs the probe, which enabled = false excludes")
        return self

    def hz(self, *, local: bool) -> int:
        """The sampling frequency of sessions."""
        if self.waits_hz is not None:
            return self.waits_hz
        return LOCAL_HZ if local else REMOTE_HZ

    def log_options(self) -> list[str]:
        if isinstance(self.log, str):
            return [f"--log={self.log}"]
        return [] if self.log else ["--no-log"]


SnapshotMethod = Literal["copy", "reflink", "btrfs", "zfs"]
"""Copy files, share their blocks, or use a snapshot of the file system."""

FILE_SYSTEMS = frozenset[SnapshotMethod](("btrfs", "zfs"))
"""Methods that need the file system and the program of their name."""
NO_REFLINK = frozenset({"ext2", "ext3", "ext4", "tmpfs", "ramfs", "f2fs"})
"""File systems in which files cannot share blocks."""


def snapshot_method(value: object) -> object:
    """Validate the method, with a reason for common wrong names. Raises ValueError."""
    if value == "lvm":
        raise ValueError(
            'LVM restores a whole volume, with everything on it, and only while it is unmounted: use "reflink", '
            "with XFS on the volume"
        )
    return value


_PERCENT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*%\s*")


Promises = Annotated[
    list[Annotated[str, AfterValidator(read_by(parse_promise))]],
    BeforeValidator(lambda value: [value] if isinstance(value, str) else value, json_schema_input_type=str | list[str]),
]
"""One or several, as written; `parse_promise` reads each."""


def latency_targets(value: object) -> object:
    """Validate `search.latency`: a target for all scripts, or a table of targets by script. Raises ValueError."""
    targets = value.values() if isinstance(value, dict) else [value]
    if value is not None:
        for target in targets:
            if not isinstance(target, str):
                raise InvalidValueError("write a latency target as text", 'such as latency = "p99 < 10ms"')
            parse_latency(target)
        if not targets:
            raise ValueError("must not be empty")
    return value


def latency_words(latency: str | Mapping[str, str]) -> str:
    """Return latency targets as in the plan: `p99 < 10ms`, or `tpcb-like p99 < 10ms, select-only p99 < 1ms`."""
    return latency if isinstance(latency, str) else ", ".join(f"{name} {each}" for name, each in latency.items())


LEAST_MARGIN, MOST_MARGIN = 0.01, 0.5


def checked_margin(text: str | None) -> str | None:
    """Validate the difference that counts as none. Raises ValueError."""
    if text is not None and not LEAST_MARGIN <= share_of(text) <= MOST_MARGIN:
        raise InvalidValueError(f"{text!r} is not a margin", 'write a share from 1% to 50%, such as "2%"')
    return text


def share_of(text: str) -> float:
    """Return 0.05 for `5%`. Raises ValueError."""
    match = _PERCENT.fullmatch(text)
    share = float(match[1]) / 100 if match is not None else 0.0
    if not 0.001 <= share <= 1:
        raise InvalidValueError(f"{text!r} is not a valid share", 'write a share from 0.1% to 100%, such as "5%"')
    return share
