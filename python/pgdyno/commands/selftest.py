"""`pgdyno target selftest`: rents the smallest server, tries all that a run needs of it, and removes it."""

from __future__ import annotations

import os
import tempfile
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import psycopg
from pydantic import ValidationError
from rich.console import Console

from pgdyno.commands.cost import Consent, agree
from pgdyno.commands.selftest_checks import Tally
from pgdyno.commands.selftest_trial import try_a_trial
from pgdyno.errors import ExitCode, UsageError
from pgdyno.plan import Plan
from pgdyno.report import numbers
from pgdyno.target import Home
from pgdyno.target.aws.cost import Estimate
from pgdyno.target.aws.life import Rental, begin
from pgdyno.target.aws.rate import Origin
from pgdyno.target.aws.reaper import Reaper, Wanted
from pgdyno.target.aws.take_down import take_down
from pgdyno.units import format_duration

SMALLEST = {"ec2": "t4g.micro", "rds": "db.t4g.micro", "aurora": "db.t4g.medium"}
GENERATORS = {"x86_64": "t3.micro", "aarch64": "t4g.micro"}
"""By this machine's architecture: its programs run there."""
LASTS_H = 2.0
"""After so long it has expired; it takes half an hour or less."""
WORK_MEM = "8MB"
"""A parameter whose value tells that the group is in force; the default is 4MB."""
_LOOK = """
    SELECT current_setting('server_version'), current_setting('work_mem'),
           (SELECT version FROM pg_stat_ssl WHERE pid = pg_backend_pid())
"""
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
    generator: str | None = None
    """Its instance type; None: a small one of this machine's architecture."""
    snapshot: str | None = None
    duration: str = "1m"
    """Of the trial."""
    more: Mapping[str, object] = field(default_factory=dict)
    """Further keys of the target, and of the generator behind `generator.`."""

    def plan(self) -> Plan:
        """One server with a parameter of its own, and a generator. Raises UsageError."""
        if self.snapshot is not None and self.kind == "ec2":
            raise UsageError("--snapshot is of rds and aurora")
        ahead = "generator."
        target = {
            "kind": self.kind,
            "version": self.version,
            "instance": self.instance or SMALLEST[self.kind],
            "region": self.region,
            "parameters": {"work_mem": WORK_MEM},
            **({"data": _DATA, "wal": _WAL} if self.kind == "ec2" else {"tls_root": self.tls_root}),
            **({"snapshot": self.snapshot} if self.snapshot is not None else {}),
            **{key: value for key, value in self.more.items() if not key.startswith(ahead)},
        }
        generator = {
            "kind": "ec2",
            "instance": self.generator or GENERATORS.get(os.uname().machine, "t3.micro"),
            **{key.removeprefix(ahead): value for key, value in self.more.items() if key.startswith(ahead)},
        }
        return _checked(
            {
                "name": "selftest",
                "target": {self.kind: target},
                "generator": generator,
                "workload": {"scripts": ["select-only"], "dataset": "pgbench", "scale": 1},
                "sweep": {"clients": 1},
                "trial": {"duration": self.duration},
                # a line in the server's log; Aurora has no checkpoints
                **({"event": [{"at": "1s", "do": "checkpoint"}]} if self.kind == "rds" else {}),
            }
        )


def _checked(plan: Mapping[str, object]) -> Plan:
    try:
        return Plan.model_validate(plan)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        at = ".".join(str(part) for part in first["loc"])
        raise UsageError(
            f"{at}: {first['msg'].lower()}", hint="see --set, --instance, --generator, --duration"
        ) from error


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


def selftest(tried: Tried, consent: Consent, runs: Path) -> ExitCode:
    """Rents, tries, removes; says how each check went. Raises PgdynoError when nothing could be rented."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)

    def say(text: str) -> None:
        console.print(text, markup=False)

    plan, root = tried.plan(), Home.locate().root
    say(f"rented for half an hour or less, and removed; for {LASTS_H:g} hours, the very most, this is:")
    found = agree(plan, consent, LASTS_H)
    began = time.monotonic()
    rental = begin(plan, root, say, LASTS_H * 3600)
    tally = Tally(tried.kind, print)
    try:
        _prices(tally, found)
        with tally.trying("up"):
            rental.up()
            tally.tell("up", True, f"rented within {format_duration(time.monotonic() - began)}")
            _try_all(tally, plan, rental, tried, runs)
        tally.leave_out_the_rest("it did not come up", but=("removed", "gone"))
    finally:
        left = take_down(rental, print)
    told = "all of it" if left == 0 else "nobody could look" if left is None else f"{numbers.count(left, 'thing')} left"
    tally.tell("removed", left == 0, told)
    with tally.trying("gone"):
        there = Reaper(root, tuple(rental.clouds)).find(Wanted(rental.journal.run))
        tally.tell("gone", not there, f"{numbers.count(len(there), 'thing') if there else 'nothing'} of it found")
    took = format_duration(time.monotonic() - began)
    print(f"{'failed: ' + ', '.join(tally.wrong) if tally.wrong else 'passed'} after {took}")
    return ExitCode.TARGET if tally.wrong else ExitCode.OK


def _try_all(tally: Tally, plan: Plan, rental: Rental, tried: Tried, runs: Path) -> None:
    """All that there is to try of what is up."""
    with tally.trying("tls", "version", "parameters"):
        _server(tally, rental, tried)
    if tried.kind == "ec2":
        with tally.trying("ssh", "volumes", "expiry"):
            _host(tally, rental, tried.kind)
    with tally.trying("tags"), tempfile.TemporaryDirectory() as elsewhere:
        found = Reaper(Path(elsewhere), tuple(rental.clouds)).find(Wanted(rental.journal.run))
        tagged, known = ({each.id for each in there} for there in (found, rental.there()))
        tally.tell("tags", tagged == known, f"{len(tagged & known)} of {len(known)} things are found")
    try_a_trial(tally, plan, rental, runs)
    if tried.kind != "ec2":
        try_restore(tally, rental, tried)


def try_restore(tally: Tally, rental: Rental, tried: Tried) -> None:
    """Makes the database anew from its snapshot, and looks at it by its new password."""
    if tried.snapshot is None:
        tally.leave_out("restore", "say --snapshot NAME")
        return
    with tally.trying("restore"):
        rental.restore(tried.kind)
        _, work_mem, _ = _looked(rental, tried.kind)
        tally.tell("restore", work_mem == WORK_MEM, f"from {tried.snapshot}, with work_mem of {work_mem}")


def _prices(tally: Tally, found: Estimate) -> None:
    asked = [each for each in found.items if each.rate is not None and each.rate.origin is Origin.AMAZON]
    lacking = ", ".join(f"{each.target}'s {each.what}" for each in found.items if each not in asked)
    text = f"{len(asked)} of {len(found.items)} things have one"
    tally.tell("prices", not lacking, f"{text}; not {lacking}" if lacking else text)


def _looked(rental: Rental, name: str) -> tuple[str, str, str | None]:
    """Version, work_mem, and the version of TLS. Raises psycopg.Error, TargetError."""
    with psycopg.connect(rental.connection(name).dsn) as connection:
        row = connection.execute(_LOOK).fetchone()
    assert row is not None
    return row[0], row[1], row[2]


def _server(tally: Tally, rental: Rental, tried: Tried) -> None:
    version, work_mem, tls = _looked(rental, tried.kind)
    tally.tell("tls", tls is not None, f"the connection is encrypted ({tls}), its certificate checked")
    same = f"{version}.".startswith(f"{tried.version}.")
    tally.tell("version", same, f"PostgreSQL {version}, and {tried.version} was asked for")
    tally.tell("parameters", work_mem == WORK_MEM, f"work_mem is {work_mem}, and its parameters say {WORK_MEM}")


def _host(tally: Tally, rental: Rental, name: str) -> None:
    """What is asked of a host over SSH."""
    from pgdyno.remote.shell import ask

    spec = rental.connection(name).ssh
    assert spec is not None
    mounted = ask(spec, _MOUNTS).split()
    tally.tell("ssh", True, f"the host {spec.host} is reached, its key known beforehand")
    told = f"data and WAL have {' and '.join(mounted) or 'no file systems'}"
    tally.tell("volumes", mounted == ["ext4", "xfs"], told)
    alive = ask(spec, _EXPIRY).strip()
    tally.tell("expiry", alive == "active", f"what ends the host at its expiry is {alive}")
