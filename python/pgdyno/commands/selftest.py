"""`pgdyno target selftest`: rents the smallest server, looks whether all is as it should be, and removes it."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import psycopg
from rich.console import Console

from pgdyno.commands.cost import Consent, agree
from pgdyno.errors import ExitCode, TargetError, UsageError
from pgdyno.plan import Plan
from pgdyno.target import Home
from pgdyno.target.aws.kinds import Kind
from pgdyno.target.aws.life import Rental, begin
from pgdyno.target.aws.reaper import Reaper, Wanted, left_lines
from pgdyno.units import format_duration

SMALLEST = {"ec2": "t4g.micro", "rds": "db.t4g.micro", "aurora": "db.t4g.medium"}
LASTS_H = 2.0
"""After so long it has expired; it takes half an hour or less."""
WORK_MEM = "8MB"
"""A parameter whose value tells that the group is in force; the default is 4MB."""
_LOOK = """
    SELECT current_setting('server_version'), current_setting('work_mem'),
           (SELECT version FROM pg_stat_ssl WHERE pid = pg_backend_pid())
"""


_MAIN = {"ec2": Kind.INSTANCE, "rds": Kind.DB_INSTANCE, "aurora": Kind.DB_INSTANCE}
_DATA, _WAL = {"size": "2GB"}, {"size": "1GB", "file_system": "xfs"}
"""Of a host: two volumes, to see whether each is where it belongs."""
_MOUNTS = "findmnt -no FSTYPE /srv/pgdyno/data; findmnt -no FSTYPE /srv/pgdyno/wal"
_EXPIRY = "systemctl is-active pgdyno-expiry.service"


@dataclass(frozen=True, slots=True)
class Tried:
    """What is rented."""

    kind: Literal["ec2", "rds", "aurora"]
    version: str
    instance: str | None
    region: str | None
    tls_root: str | None
    more: Mapping[str, object] = field(default_factory=dict)
    """Further keys of the target."""

    def plan(self) -> Plan:
        """One server with a parameter of its own."""
        target = {
            "kind": self.kind,
            "version": self.version,
            "instance": self.instance or SMALLEST[self.kind],
            "region": self.region,
            "parameters": {"work_mem": WORK_MEM},
            **({"data": _DATA, "wal": _WAL} if self.kind == "ec2" else {"tls_root": self.tls_root}),
            **self.more,
        }
        return Plan.model_validate(
            {
                "name": "selftest",
                "target": {self.kind: target},
                "workload": {"scripts": ["select-only"], "dataset": "none"},
                "sweep": {"clients": 1},
                "trial": {"duration": "1s"},
            }
        )


def keys_of(given: Sequence[str]) -> dict[str, object]:
    """Keys with their values as TOML has them; what is none is a text. Raises UsageError."""
    found: dict[str, object] = {}
    for each in given:
        key, equals, value = each.partition("=")
        if not equals:
            raise UsageError(f"--set {each}: there is no value", hint="such as --set 'subnet=\"subnet-0a1b\"'")
        try:
            found[key.strip()] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            found[key.strip()] = value
    return found


def selftest(tried: Tried, consent: Consent) -> ExitCode:
    """Rents, looks, removes; says how each step went. Raises PgdynoError when nothing could be rented."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    plan, root = tried.plan(), Home.locate().root
    agree(plan, consent, LASTS_H)
    began = time.monotonic()
    rental = begin(plan, root, lambda text: console.print(text, markup=False), LASTS_H * 3600)
    wrong: list[str] = []
    try:
        rental.up()
        print(f"ok: rented within {format_duration(time.monotonic() - began)}")
        wrong += _look(rental, tried)
        there = Reaper(root).find(Wanted(rental.journal.run))
        wrong += _said(
            _MAIN[tried.kind] in {each.kind for each in there}, f"found by journal and tags: {len(there)} things"
        )
    finally:
        left = rental.down()
        for line in left_lines(left):
            print(line)
    wrong += _said(not left, "all of it is removed")
    wrong += _said(not Reaper(root).find(Wanted(rental.journal.run)), "nothing of it is found any more")
    print(f"{'failed' if wrong else 'passed'} after {format_duration(time.monotonic() - began)}")
    return ExitCode.TARGET if wrong else ExitCode.OK


def _look(rental: Rental, tried: Tried) -> list[str]:
    try:
        with psycopg.connect(rental.connection(tried.kind).dsn) as connection:
            row = connection.execute(_LOOK).fetchone()
    except psycopg.Error as error:
        raise TargetError(f"the server does not answer: {str(error).strip()}") from error
    assert row is not None
    version, work_mem, tls = row
    return [
        *_said(tls is not None, f"the connection is encrypted ({tls}), its certificate checked"),
        *_said(
            f"{version}.".startswith(f"{tried.version}."), f"PostgreSQL {version}, and {tried.version} was asked for"
        ),
        *_said(work_mem == WORK_MEM, f"work_mem is {work_mem}, and its parameters say {WORK_MEM}"),
        *_host(rental, tried.kind),
    ]


def _host(rental: Rental, name: str) -> list[str]:
    """What is asked of a host over SSH; nothing of a database service."""
    spec = rental.connection(name).ssh
    if spec is None:
        return []
    from pgdyno.remote.shell import ask

    mounted = ask(spec, _MOUNTS).split()
    alive = ask(spec, _EXPIRY).strip()
    return [
        *_said(True, f"the host {spec.host} is reached over SSH, its key known beforehand"),
        *_said(
            mounted == ["ext4", "xfs"], f"volumes for data and WAL have {' and '.join(mounted) or 'no file systems'}"
        ),
        *_said(alive == "active", f"what ends the host at its expiry is {alive}"),
    ]


def _said(good: bool, text: str) -> list[str]:
    """Says `text` with a verdict; in a list when that is bad."""
    print(f"{'ok' if good else 'WRONG'}: {text}")
    return [] if good else [text]
