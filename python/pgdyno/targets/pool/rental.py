"""The borrowed hosts of a plan, from the first request to their return, which also follows errors and interrupts."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from psycopg.conninfo import make_conninfo

from pgdyno.errors import TargetError
from pgdyno.messages import Message
from pgdyno.plan.hosts import SshSpec
from pgdyno.plan.model import Plan, servers_of
from pgdyno.targets import rental
from pgdyno.targets.cluster.initdb import initdb_refusal
from pgdyno.targets.dsn.schema import DsnTarget
from pgdyno.targets.estimate import Estimate
from pgdyno.targets.home import storing
from pgdyno.targets.pool.host_script import CLEAN_UP_S, NoRootError, PoolError, on_host, reached_at
from pgdyno.targets.pool.loan_journal import Asked, Journal, journals
from pgdyno.targets.pool.schema import PoolTarget
from pgdyno.targets.rental import Say
from pgdyno.units import parse_duration_s

USER = "pgdyno"
"""The superuser of new clusters."""
UNFIT = 'name a host with Debian or Ubuntu; or set up a server there yourself, and use kind = "dsn"'
NO_COST = Estimate((), None, (), "the pool of hosts")


def pool_targets(plan: Plan) -> dict[str, PoolTarget]:
    """Return the plan's servers in the pool by name: each instance of a target of several is one."""
    return {name: spec for name, spec in servers_of(plan).items() if isinstance(spec, PoolTarget)}


def digest_of(plan: Plan) -> str:
    asked = {name: spec.model_dump(mode="json", exclude={"instances"}) for name, spec in pool_targets(plan).items()}
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Loan:
    """A host that a run has borrowed; see `pgdyno.targets.rental.Resource`."""

    run: str
    asked: Asked
    expires: datetime | None

    @property
    def id(self) -> str:
        """The host with the run, which together name what is to be given back."""
        return f"{self.asked.ssh.host} {self.run}"

    @property
    def owner(self) -> str:
        """Nobody is recorded."""
        return ""

    @property
    def words(self) -> str:
        """`host db1.example.net (target pg)`."""
        return f"host {self.asked.ssh.host} (target {self.asked.target})"


@dataclass(frozen=True, slots=True)
class Left:
    """A host that could not be given back."""

    resource: Loan
    why: str

    @property
    def message(self) -> Message:
        """That it is not given back, and until when."""
        asked, expires = self.resource.asked, self.resource.expires
        return Message(
            "host-not-given-back",
            "host {host} (target {target}) is not given back: {why}"
            if expires is None
            else "host {host} (target {target}) is not given back: {why}; it cleans itself up after {expires}",
            host=asked.ssh.host,
            target=asked.target,
            why=self.why,
            expires="" if expires is None else f"{expires:%FT%TZ}",
        )


@dataclass(slots=True)
class Rental(rental.Rental):
    """The borrowed hosts of one plan."""

    journal: Journal

    def up(self) -> None:
        """Borrows a host for each target, one after the other, and sets up a server on it. Raises TargetError."""
        for name, spec in pool_targets(self.plan).items():
            try:
                self._borrow_host(name, spec)
            except TargetError as error:
                raise type(error)(f"target {name}: {error.message}", hint=error.hint) from error

    def _borrow_host(self, name: str, spec: PoolTarget) -> None:
        self.since[name] = datetime.now(UTC)
        busy = []
        for ssh in spec.hosts:
            self.say(f"{name}: borrowing {ssh.host}")
            self.journal.asking(name, ssh)
            password = secrets.token_urlsafe(24)
            try:
                said = on_host(
                    ssh, "borrow", self.journal.run, within_s=parse_duration_s(spec.ready_within),
                    variables=self._variables(spec, password),
                )  # fmt: skip
            except NoRootError:
                self.journal.refused()
                raise
            answer, _, certificate = said.strip().partition("\n")
            if answer == "ready":
                self._make_ready(name, spec, ssh, password, certificate)
                return
            if answer.startswith("unfit: "):
                self.journal.refused()
                raise PoolError(f"the host {ssh.host}: {answer.removeprefix('unfit: ')}", hint=UNFIT)
            if not answer.startswith("busy: "):
                raise PoolError(f"the host {ssh.host} answered {answer[:80]!r}", hint="give it back: pgdyno reap --all")
            self.journal.refused()
            busy.append(f"{ssh.host}: {answer.removeprefix('busy: ')}")
        listed = "".join(f"\n  {each}" for each in busy)
        raise PoolError(f"no host is free{listed}", hint="wait, or add a host to hosts = [...]")

    def _variables(self, spec: PoolTarget, password: str) -> dict[str, str | Sequence[str]]:
        lasts_s = max((self.journal.expires - datetime.now(UTC)).total_seconds(), 60.0)
        return {
            "VERSION": spec.version,
            "PACKAGES": spec.packages,
            "FOLDER": spec.folder.rstrip("/") or "/",
            "PORT": str(spec.port),
            "TLS": "yes" if spec.tls else "no",
            "LASTS_S": f"{lasts_s:.0f}",
            "INITDB": spec.initdb,
            "ALLOW": spec.allow,
            "SETTINGS": _settings(spec, f"{spec.folder.rstrip('/')}/pgdyno-{self.journal.run}"),
            "ROLE": f"CREATE ROLE {USER} SUPERUSER LOGIN PASSWORD '{verifier(password)}'",
        }

    def _make_ready(self, name: str, spec: PoolTarget, ssh: SshSpec, password: str, certificate: str) -> None:
        address = reached_at(ssh)
        escaped = address.replace("\\", "\\\\").replace(":", "\\:")
        with storing(self.journal.path, "cannot write"):
            if spec.tls:
                self._certificate(name).write_text(certificate, encoding="utf-8")
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            handle = os.open(self.journal.passwords, flags, 0o600)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(f"{escaped}:{spec.port}:*:{USER}:{password}\n")
        place = {"instance": ssh.host, "zone": "the pool", "version": spec.version, "host": address, "login": ""}
        self.journal.is_ready(name, {**place, "ssh": ssh.model_dump(mode="json")})
        self.fresh.add(name)

    def _certificate(self, name: str) -> Path:
        return self.journal.path / f"{name}.crt"

    def connection(self, name: str) -> DsnTarget:
        spec, place = pool_targets(self.plan)[name], self.journal.ready[name]
        tls = {"sslmode": "verify-ca", "sslrootcert": str(self._certificate(name))} if spec.tls else {}
        dsn = make_conninfo(
            host=place["host"], port=str(spec.port), user=USER, dbname="postgres",
            passfile=str(self.journal.passwords), **({"sslmode": "disable"} | tls),
        )  # fmt: skip
        keys = ("database", "allow_existing", "settings")
        more = {key: getattr(spec, key) for key in keys if key in spec.model_fields_set}
        return DsnTarget.with_password_file(dsn, ssh=SshSpec.model_validate(place["ssh"]), **more)

    def server_id(self, name: str) -> str:
        """Return the host with the run: each run has a cluster of its own."""
        return f"{self.journal.ready[name]['instance']} {self.journal.run}"

    def generator_cost(self, name: str) -> Estimate:
        del name
        return NO_COST

    def existing(self) -> list[Loan]:
        return loans(self.journal)

    def prolong(self, expires: datetime) -> None:
        """Give the hosts another expiry. Raises TargetError, also if one has expired."""
        left_s = max((expires - datetime.now(UTC)).total_seconds(), 1.0)
        lost = [
            each.ssh.host
            for each in self.journal.asked
            if on_host(each.ssh, "prolong", self.journal.run, f"{left_s:.0f}").strip() != "borrowed"
        ]
        if lost:
            raise PoolError(
                f"the run {self.journal.run} no longer has {' and '.join(lost)}: it expired there",
                hint=f"give the others back: pgdyno reap --run {self.journal.run}",
            )
        self.journal.prolong(expires)

    def release(self, name: str) -> None:
        """Give the host of target `name` back; `down` finds it free. Raises TargetError."""
        ssh = SshSpec.model_validate(self.journal.ready[name]["ssh"])
        on_host(ssh, "give-back", self.journal.run, within_s=CLEAN_UP_S)
        self.journal.is_released(name)
        self.released[name] = datetime.now(UTC)

    def down(self) -> list[Left]:
        """Give all hosts back; return those that cannot be cleaned up, and keep the journal for them."""
        return give_back(self.journal, self.say)


def loans(journal: Journal) -> list[Loan]:
    """Return the hosts that the run of `journal` has. Raises TargetError."""
    return [
        Loan(journal.run, each, journal.expires)
        for each in journal.asked
        if on_host(each.ssh, "look", journal.run).strip() == "borrowed"
    ]


def give_back(journal: Journal, say: Say) -> list[Left]:
    """Give the hosts of `journal` back, side by side, and remove the journal if all are free; return the others."""

    def back(each: Asked) -> Left | None:
        try:
            said = on_host(each.ssh, "give-back", journal.run, within_s=CLEAN_UP_S)
        except TargetError as error:
            return Left(Loan(journal.run, each, journal.expires), error.message)
        for line in said.splitlines():
            if line.startswith("kept: "):
                say(f"{each.ssh.host}: {line}")
        return None

    if not journal.asked:
        journal.close()
        return []
    with ThreadPoolExecutor(len(journal.asked)) as workers:
        left = [each for each in workers.map(back, journal.asked) if each is not None]
    if not left:
        journal.close()
    return left


def begin(plan: Plan, root: Path, say: Say, lasts_s: float) -> Rental:
    """Start a rental that expires in `lasts_s`, without borrowing yet.

    Raises TargetError for an unreachable host, and for arguments of initdb whose files no clean-up would find.
    """
    specs = pool_targets(plan)
    for name, spec in specs.items():
        refused = next((each for each in spec.initdb if initdb_refusal(each) is not None), None)
        if refused is not None:
            raise PoolError(
                f"target {name}: cannot pass {refused} to initdb: pgdyno decides where the cluster is and who connects",
                hint="remove it from the target's initdb",
            )
    for name, spec in specs.items():
        for ssh in spec.hosts:
            try:
                reached_at(ssh)
            except TargetError as error:
                raise type(error)(f"target {name}: {error.message}", hint=error.hint) from error
    return Rental(
        plan, Journal.begin(root, plan.name, digest_of(plan), datetime.now(UTC) + timedelta(seconds=lasts_s)), say
    )


def standing(plan: Plan, root: Path, say: Say) -> Rental | None:
    """Return what `pgdyno target up` left running for this plan; None if nothing. Raises TargetError."""
    for journal in journals(root):
        if journal.plan != plan.name or not journal.ready:
            continue
        hint = f"give them back: pgdyno reap --run {journal.run}"
        if journal.digest != digest_of(plan):
            message = (
                f"hosts of a plan {plan.name} are borrowed (run {journal.run}), but its targets have changed since"
            )
            raise PoolError(message, hint=hint)
        if journal.ready.keys() != pool_targets(plan).keys():
            continue
        if not journal.hold():
            raise PoolError(f"another pgdyno uses the servers of the plan {plan.name} (run {journal.run})")
        rental = Rental(plan, journal, say)
        if len(rental.existing()) == len(journal.asked):
            return rental
        # the run has expired on its hosts
        if give_back(journal, say):
            raise PoolError(f"hosts of the run {journal.run} cannot be given back", hint=hint)
    return None


def left_of(plan: Plan, root: Path, say: Say) -> list[Rental]:
    """Return all rentals in journals of plans of that name, complete or not."""
    return [Rental(plan, journal, say) for journal in journals(root) if journal.plan == plan.name]


def _settings(spec: PoolTarget, data: str) -> str:
    ours = {
        "listen_addresses": "*",
        "port": str(spec.port),
        "unix_socket_directories": data,
        "password_encryption": "scram-sha-256",
        "ssl": "on" if spec.tls else "off",
    }
    quoted = (
        (name, value.replace("\\", "\\\\").replace("'", "''")) for name, value in (ours | spec.parameters).items()
    )
    return "".join(f"{name} = '{value}'\n" for name, value in quoted)


ITERATIONS = 4096
"""The default of PostgreSQL's scram_iterations."""


def verifier(password: str) -> str:
    """Return `SCRAM-SHA-256$4096:salt$StoredKey:ServerKey`: the host never learns the password itself."""
    salt = secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode("ascii"), salt, ITERATIONS)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server = hmac.digest(salted, b"Server Key", "sha256")
    parts = [base64.b64encode(each).decode() for each in (salt, stored, server)]
    return f"SCRAM-SHA-256${ITERATIONS}:{parts[0]}${parts[1]}:{parts[2]}"
