"""Rents the smallest server at Amazon, checks everything that a run needs from it, and removes it."""

import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict
from pydantic import ValidationError

from pgdyno.errors import PgdynoError, UsageError
from pgdyno.plan.model import Plan
from pgdyno.records import CloudRecord, CloudReport, CloudSource, Outcome, TrialRecord
from pgdyno.targets.aws.databases.dead_man import NONE
from pgdyno.targets.aws.removal import Reaper
from pgdyno.targets.aws.rental import Rental, begin
from pgdyno.targets.connection import USE_FILE
from pgdyno.targets.direct_session import open_session
from pgdyno.targets.rented.estimate import Estimate, Origin
from pgdyno.targets.rented.provider import SelftestTrial, Tried, Wanted
from pgdyno.targets.rented.rental import Say, take_down
from pgdyno.units import duration_words, quantity

DATABASES, HOST = ("rds", "aurora"), ("ec2",)
ALL = (*DATABASES, *HOST)


@dataclass(frozen=True, slots=True)
class Check:
    """One check of the self-test."""

    key: str
    what: str
    kinds: Sequence[str] = ALL


CHECKS = (
    Check("prices", "the Pricing API has a price for each billed resource"),
    Check("up", "the policy suffices; the server and the generator start, and the generator reaches the server"),
    Check("tls", "the connection is encrypted, and the certificate is valid (by Amazon's bundle, which is downloaded)"),
    Check("version", "PostgreSQL has the requested version"),
    Check("parameters", "a value of the parameter group (on EC2: of the settings) is in effect on the server"),
    Check("ssh", "the host's key is the one that was given to it", HOST),
    Check("volumes", "volumes are found by their device names, and have their file systems", HOST),
    Check("expiry", "the service that ends the host at its expiry runs", HOST),
    Check("tags", "everything is found by its tags alone, as from another machine"),
    Check("trial", "data are loaded, and a trial's load comes from the generator"),
    Check("generator", "round trips and the clock are measured there, in the server's zone"),
    Check("cloudwatch", "its metrics have the expected names, and arrive within 5 minutes"),
    Check("insights", "Performance Insights has a point for each second", DATABASES),
    Check("log", "the server's log is read, and its lines have a time", DATABASES),
    Check("restore", "with `--snapshot`: the server is created again from it, and accepts its new password", DATABASES),
    Check("removed", "all of it is removed"),
    Check("gone", "neither the journal nor the tags lead to any resource"),
)


def checks_of(kind: str) -> list[Check]:
    return [each for each in CHECKS if kind in each.kinds]


@dataclass(slots=True)
class Tally:
    """The results of the checks for one kind of target."""

    kind: str
    notify: Callable[[str], None]
    said: dict[str, bool | None] = field(default_factory=dict)
    """Whether each check passed, by key; None for a skipped one."""

    @property
    def wrong(self) -> list[str]:
        return [key for key, good in self.said.items() if good is False]

    def left_of(self, keys: Iterable[str]) -> list[str]:
        """Return those of `keys` that the kind has, and that have no result yet."""
        return [key for key in keys if key not in self.said and key in {each.key for each in checks_of(self.kind)}]

    def tell(self, key: str, good: bool, text: str) -> None:
        """Record and report the result of a check."""
        self.said[key] = good
        self.notify(f"{'ok' if good else 'WRONG'}: {key}: {text}")

    def leave_out(self, keys: Iterable[str], why: str) -> None:
        """Report those of `keys` without a result as skipped, with the reason."""
        for key in self.left_of(keys):
            self.said[key] = None
            self.notify(f"left out: {key}: {why}")

    @contextmanager
    def try_checks(self, *keys: str) -> Iterator[None]:
        """Record an error in the block as the failure of the first of `keys` without a result; skip the others."""
        try:
            yield
        except (PgdynoError, psycopg.Error) as error:
            first, *rest = self.left_of(keys)
            self.tell(first, False, _words(error))
            self.leave_out(rest, f"{first} is wrong")


def _words(error: PgdynoError | psycopg.Error) -> str:
    if isinstance(error, PgdynoError):
        return f"{error.message}{f' ({error.hint})' if error.hint else ''}"
    return str(error).strip().replace("\n", "; ")


def try_a_trial(tally: Tally, rental: Rental, trial: Callable[[Plan], SelftestTrial]) -> None:
    """Run the plan with `trial` on the servers of `rental`, which stay up. Raises PgdynoError if not their fault."""
    with tally.try_checks("trial", "generator", "cloudwatch", "insights", "log"):
        # The run locks the journal of the existing servers itself.
        rental.journal.release()
        try:
            done = trial(rental.plan)
        finally:
            rental.journal.hold()
        record = done.record
        succeeded = record.summary.succeeded if record.summary is not None else None
        why = record.failure or f"{succeeded or 0:,} transactions"
        tally.tell("trial", record.outcome is Outcome.FINISHED, f"{why}, {done.folder}")
        _generator(tally, record)
        _tally_sources(tally, done.told)


def _generator(tally: Tally, record: TrialRecord) -> None:
    path = record.network_path
    if path is None or path.clock_uncertainty_us is None:
        tally.tell("generator", False, "neither round trips nor the clock were measured")
        return
    where = f"a round trip of {path.median_us:,.0f} µs in {path.generator_zone}, the server in {path.server_zone}"
    clock = f"clocks to {path.clock_uncertainty_us / 1000:,.1f} ms"
    tally.tell("generator", path.generator_zone == path.server_zone, f"{where}; {clock}")


def _tally_sources(tally: Tally, kept: CloudRecord | None) -> None:
    sources = {told.source.value: told for told in kept.sources} if kept is not None else {}
    for check in checks_of(tally.kind):
        if check.key not in {each.value for each in CloudSource}:
            continue
        if check.key in sources:
            tally.tell(check.key, *_verdict(sources[check.key], quiet=tally.kind == "aurora"))
        else:
            tally.tell(check.key, False, "nothing was requested")


def _verdict(told: CloudReport, *, quiet: bool) -> tuple[bool, str]:
    """Return whether the source delivered, and a text; `quiet` means that the server's log may be empty."""
    if told.message is not None:
        return False, told.message
    if told.gaps:
        lacking_s = sum(each.to_s - each.from_s for each in told.gaps)
        return False, f"{told.figures:,} figures, and {duration_words(lacking_s)} are missing"
    if told.source is CloudSource.LOG:
        return told.figures > 0 or quiet, f"{told.figures:,} lines"
    return told.figures > 0, f"{told.figures:,} figures, none missing"


SMALLEST = {"ec2": "t4g.micro", "rds": "db.t4g.micro", "aurora": "db.t4g.medium"}
GENERATORS = {"x86_64": "t3.micro", "aarch64": "t4g.micro"}
"""The generator by this machine's architecture, for which pgdyno has programs here."""
LASTS_H = 2.0
"""Hours for which the rental may cost money at the most; the self-test takes half an hour or less."""
ENDING_H = 0.5
"""Hours that an end by the dead-man switch takes, which acts within 15 minutes of the expiry."""
WORK_MEM = "8MB"
"""A value that shows that the parameter group is in effect; PostgreSQL's default is 4MB."""
_LOOK = """
    SELECT current_setting('server_version'), current_setting('work_mem'),
           (SELECT version FROM pg_stat_ssl WHERE pid = pg_backend_pid())
"""
_DATA, _WAL = {"size": "2GB"}, {"size": "1GB", "file_system": "xfs"}
"""Two volumes with different file systems, to check that each is mounted in its place."""
_MOUNTS = "findmnt -no FSTYPE /srv/pgdyno/data; findmnt -no FSTYPE /srv/pgdyno/wal"
_EXPIRY = "systemctl is-active pgdyno-expiry.service"


def plan_of(tried: Tried) -> Plan:
    """Return the plan of one server with a changed parameter, and a generator. Raises UsageError."""
    target: dict[str, object] = {
        "kind": tried.kind,
        "instance": SMALLEST[tried.kind],
        "parameters": {"work_mem": WORK_MEM},
    }
    target |= {"data": _DATA, "wal": _WAL} if tried.kind == "ec2" else {}
    generator: dict[str, object] = {"kind": "ec2", "instance": GENERATORS.get(os.uname().machine, "t3.micro")}
    for key, value in tried.keys.items():
        of_generator = key.startswith("generator.")
        (generator if of_generator else target)[key.removeprefix("generator.")] = value
    plan = {
        "name": "selftest",
        "target": {tried.kind: target},
        "generator": generator,
        "workload": {"scripts": ["select-only"], "dataset": "pgbench", "scale": 1},
        "sweep": {"clients": 1},
        "trial": {"duration": tried.duration},
        # The checkpoint makes the server write to its log; Aurora has no checkpoints.
        **({"event": [{"at": "1s", "do": "checkpoint"}]} if tried.kind == "rds" else {}),
    }
    try:
        return Plan.model_validate(plan)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        at = ".".join(str(part) for part in first["loc"])
        hint = "see --set, --instance, --generator, --snapshot, --duration"
        raise UsageError(f"{at}: {first['msg'].lower()}", hint=hint) from error


def selftest(
    tried: Tried, root: Path, agree: Callable[[Plan, float], Estimate], trial: Callable[[Plan], SelftestTrial], say: Say
) -> bool:
    """Rent, check and remove; report each check, return whether none failed. Raises PgdynoError."""
    plan = plan_of(tried)
    say(f"rented for half an hour or less, and removed; for {LASTS_H:g} hours, {_limit(plan)}, this is:")
    found = agree(plan, LASTS_H)
    began = time.monotonic()
    rental = begin(plan, root, say, (LASTS_H - ENDING_H) * 3600)
    tally = Tally(tried.kind, print)
    try:
        _prices(tally, found)
        with tally.try_checks("up"):
            rental.up()
            tally.tell("up", True, f"rented within {duration_words(time.monotonic() - began)}")
            _try_all(tally, rental, tried, trial)
        tally.leave_out((each.key for each in CHECKS[:-2]), "it did not come up")
    finally:
        left = take_down(rental, print)
    remains = "unknown, because the search failed" if left is None else f"{quantity(left, 'thing')} left"
    tally.tell("removed", left == 0, remains if left != 0 else "all of it")
    with tally.try_checks("gone"):
        there = Reaper(root, tuple(rental.clouds)).find(Wanted(rental.journal.run))
        tally.tell("gone", not there, f"{quantity(len(there), 'thing') if there else 'nothing'} of it found")
    took = duration_words(time.monotonic() - began)
    print(f"{'failed: ' + ', '.join(tally.wrong) if tally.wrong else 'passed'} after {took}")
    return not tally.wrong


def _limit(plan: Plan) -> str:
    unguarded = any(getattr(spec, "dead_man", None) == NONE for spec in plan.target.values())
    return "after which nothing removes a database without a dead-man switch" if unguarded else "the very most"


def _try_all(tally: Tally, rental: Rental, tried: Tried, trial: Callable[[Plan], SelftestTrial]) -> None:
    with tally.try_checks("tls", "version", "parameters"):
        _server(tally, rental, tried)
    if tried.kind == "ec2":
        with tally.try_checks("ssh", "volumes", "expiry"):
            _host(tally, rental, tried.kind)
    with tally.try_checks("tags"), tempfile.TemporaryDirectory() as elsewhere:
        found = Reaper(Path(elsewhere), tuple(rental.clouds)).find(Wanted(rental.journal.run))
        tagged, known = ({each.id for each in there} for there in (found, rental.existing_resources()))
        tally.tell("tags", tagged == known, f"{len(tagged & known)} of {len(known)} things are found")
    try_a_trial(tally, rental, trial)
    if tried.kind != "ec2":
        try_restore(tally, rental, tried)


def try_restore(tally: Tally, rental: Rental, tried: Tried) -> None:
    """Restores the database from its snapshot, and checks that the new password works."""
    if "snapshot" not in tried.keys:
        tally.leave_out(["restore"], "use --snapshot NAME")
        return
    with tally.try_checks("restore"):
        rental.restore(tried.kind)
        _, work_mem, _ = _read_versions(rental, tried.kind)
        tally.tell("restore", work_mem == WORK_MEM, f"from {tried.keys['snapshot']}, with work_mem of {work_mem}")


def _prices(tally: Tally, found: Estimate) -> None:
    asked = [each for each in found.items if each.rate is not None and each.rate.origin is Origin.PROVIDER]
    lacking = ", ".join(f"{each.target}'s {each.what}" for each in found.items if each not in asked)
    text = f"{len(asked)} of {len(found.items)} things have one"
    tally.tell("prices", not lacking, f"{text}; not {lacking}" if lacking else text)


def _read_versions(rental: Rental, name: str) -> tuple[str, str, str | None]:
    """Return the version, work_mem, and the version of TLS. Raises psycopg.Error, TargetError."""
    parameters = conninfo_to_dict(rental.connection(name).dsn, password=USE_FILE)
    with open_session(parameters, None) as connection:
        row = connection.execute(_LOOK).fetchone()
    assert row is not None
    return row[0], row[1], row[2]


def _server(tally: Tally, rental: Rental, tried: Tried) -> None:
    version, work_mem, tls = _read_versions(rental, tried.kind)
    tally.tell("tls", tls is not None, f"the connection is encrypted ({tls}), its certificate checked")
    wanted = tried.keys["version"]
    tally.tell("version", f"{version}.".startswith(f"{wanted}."), f"PostgreSQL {version}; requested: {wanted}")
    tally.tell("parameters", work_mem == WORK_MEM, f"work_mem is {work_mem}, and its parameters say {WORK_MEM}")


def _host(tally: Tally, rental: Rental, name: str) -> None:
    from pgdyno.remote.connect import ask

    spec = rental.connection(name).ssh
    assert spec is not None
    mounted = ask(spec, _MOUNTS).split()
    tally.tell("ssh", True, f"the host {spec.host} is reached, its key known beforehand")
    told = f"data and WAL have {' and '.join(mounted) or 'no file systems'}"
    tally.tell("volumes", mounted == ["ext4", "xfs"], told)
    alive = ask(spec, _EXPIRY).strip()
    tally.tell("expiry", alive == "active", f"the service that ends the host at its expiry is {alive}")
