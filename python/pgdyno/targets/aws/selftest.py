"""Rents the smallest server at Amazon, tries all that a run needs of it, and removes it."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import psycopg
from pydantic import ValidationError

from pgdyno.errors import UsageError
from pgdyno.plan.model import Plan
from pgdyno.targets.aws.life import Rental, begin
from pgdyno.targets.aws.reaper import Reaper
from pgdyno.targets.aws.selftest_checks import Tally
from pgdyno.targets.aws.selftest_trial import try_a_trial
from pgdyno.targets.estimate import Estimate, Origin
from pgdyno.targets.provider import SelftestTrial, Tried, Wanted
from pgdyno.targets.rental import Say, take_down
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


def plan_of(tried: Tried) -> Plan:
    """One server with a parameter of its own, and a generator. Raises UsageError."""
    if tried.snapshot is not None and tried.kind == "ec2":
        raise UsageError("--snapshot is of rds and aurora")
    ahead = "generator."
    target = {
        "kind": tried.kind,
        "version": tried.version,
        "instance": tried.instance or SMALLEST[tried.kind],
        "region": tried.region,
        "parameters": {"work_mem": WORK_MEM},
        **({"data": _DATA, "wal": _WAL} if tried.kind == "ec2" else {"tls_root": tried.tls_root}),
        **({"snapshot": tried.snapshot} if tried.snapshot is not None else {}),
        **{key: value for key, value in tried.more.items() if not key.startswith(ahead)},
    }
    generator = {
        "kind": "ec2",
        "instance": tried.generator or GENERATORS.get(os.uname().machine, "t3.micro"),
        **{key.removeprefix(ahead): value for key, value in tried.more.items() if key.startswith(ahead)},
    }
    return _checked(
        {
            "name": "selftest",
            "target": {tried.kind: target},
            "generator": generator,
            "workload": {"scripts": ["select-only"], "dataset": "pgbench", "scale": 1},
            "sweep": {"clients": 1},
            "trial": {"duration": tried.duration},
            # a line in the server's log; Aurora has no checkpoints
            **({"event": [{"at": "1s", "do": "checkpoint"}]} if tried.kind == "rds" else {}),
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


def selftest(
    tried: Tried,
    root: Path,
    agree: Callable[[Plan, float], Estimate],
    trial: Callable[[Plan], SelftestTrial],
    say: Say,
) -> bool:
    """Rents, tries, removes; says how each check went. Raises PgdynoError when nothing could be rented."""
    plan = plan_of(tried)
    say(f"rented for half an hour or less, and removed; for {LASTS_H:g} hours, the very most, this is:")
    found = agree(plan, LASTS_H)
    began = time.monotonic()
    rental = begin(plan, root, say, LASTS_H * 3600)
    tally = Tally(tried.kind, print)
    try:
        _prices(tally, found)
        with tally.trying("up"):
            rental.up()
            tally.tell("up", True, f"rented within {format_duration(time.monotonic() - began)}")
            _try_all(tally, plan, rental, tried, trial)
        tally.leave_out_the_rest("it did not come up", but=("removed", "gone"))
    finally:
        left = take_down(rental, print)
    told = "all of it" if left == 0 else "nobody could look" if left is None else f"{_things(left)} left"
    tally.tell("removed", left == 0, told)
    with tally.trying("gone"):
        there = Reaper(root, tuple(rental.clouds)).find(Wanted(rental.journal.run))
        tally.tell("gone", not there, f"{_things(len(there)) if there else 'nothing'} of it found")
    took = format_duration(time.monotonic() - began)
    print(f"{'failed: ' + ', '.join(tally.wrong) if tally.wrong else 'passed'} after {took}")
    return not tally.wrong


def _things(count: int) -> str:
    return f"{count} thing{'' if count == 1 else 's'}"


def _try_all(tally: Tally, plan: Plan, rental: Rental, tried: Tried, trial: Callable[[Plan], SelftestTrial]) -> None:
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
    try_a_trial(tally, plan, rental, trial)
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
    asked = [each for each in found.items if each.rate is not None and each.rate.origin is Origin.PROVIDER]
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
