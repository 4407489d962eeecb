"""The borrowed hosts of a plan, from the first request to their return, which also follows errors and interrupts."""

import secrets
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pgdyno.errors import TargetError
from pgdyno.messages import Message
from pgdyno.plan.hosts import SshSpec
from pgdyno.plan.model import Plan
from pgdyno.targets.cluster.initdb import initdb_refusal
from pgdyno.targets.pool.host_script import CLEAN_UP_S, NoRootError, PoolError, on_host, reached_at
from pgdyno.targets.pool.schema import PoolTarget
from pgdyno.targets.rented import rental
from pgdyno.targets.rented.packaged_server import USER, settings_text, verifier
from pgdyno.targets.rented.rental import Leftover, Resource, Say, digest_of, rented_servers
from pgdyno.targets.rented.rental_journal import Journal, NotedResource, Place, stamp
from pgdyno.units import parse_duration_s

UNFIT = 'name a host with Debian or Ubuntu; or set up a server there yourself, and use kind = "dsn"'


def pool_targets(plan: Plan) -> dict[str, PoolTarget]:
    """Return the plan's servers in the pool by name: each instance of a target of several is one."""
    return {name: spec for name, spec in rented_servers(plan).items() if isinstance(spec, PoolTarget)}


@dataclass(slots=True)
class Rental(rental.Rental):
    """The borrowed hosts of one plan."""

    def up(self) -> None:
        """Borrow a host for each target, one after the other, and set up a server on it. Raises TargetError."""
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
            self.journal.note_intent("host", ssh.host, "", name, ssh=ssh.model_dump(mode="json"))
            password = secrets.token_urlsafe(24)
            try:
                said = on_host(
                    ssh, "borrow", self.journal.run, within_s=parse_duration_s(spec.ready_within),
                    variables=self._variables(spec, password),
                )  # fmt: skip
            except NoRootError:
                self.journal.forget(name)
                raise
            answer, _, certificate = said.strip().partition("\n")
            if answer == "ready":
                self._make_ready(name, spec, ssh, password, certificate)
                return
            if not answer.startswith(("busy: ", "unfit: ")):
                raise PoolError(f"the host {ssh.host} answered {answer[:80]!r}", hint="give it back: pgdyno reap --all")
            self.journal.forget(name)
            kind, _, reason = answer.partition(": ")
            if kind == "unfit":
                raise PoolError(f"the host {ssh.host}: {reason}", hint=UNFIT)
            busy.append(f"{ssh.host}: {reason}")
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
        tls = "verify-ca" if spec.tls else "disable"
        place = Place(reached_at(ssh), spec.port, USER, "the pool", ssh.host, spec.version, tls)
        if spec.tls:
            self.journal.keep_key(f"{name}.crt", certificate)
        self.journal.keep_password(place, password)
        self.journal.is_ready(name, place)
        self.fresh.add(name)

    def tls_root(self, name: str) -> Path:
        return self.journal.keys / f"{name}.crt"

    def ssh(self, name: str) -> SshSpec:
        return next(ssh_of(each) for each in self.journal.noted if each.target == name)

    def server_id(self, name: str) -> str:
        """Return the host with the run: each run has a cluster of its own."""
        return f"{self.place(name).instance} {self.journal.run}"

    def is_up(self) -> bool:
        return len(self.existing_resources()) == len(self.journal.noted)

    def existing_resources(self) -> list[Resource]:
        return borrowed_hosts(self.journal)

    def prolong(self, expires: datetime) -> None:
        """Give the hosts another expiry. Raises TargetError, also if one has expired."""
        left_s = max((expires - datetime.now(UTC)).total_seconds(), 1.0)
        lost = [
            each.name
            for each in self.journal.noted
            if on_host(ssh_of(each), "prolong", self.journal.run, f"{left_s:.0f}").strip() != "borrowed"
        ]
        if lost:
            raise PoolError(
                f"the run {self.journal.run} no longer has {' and '.join(lost)}: it expired there",
                hint=f"give the others back: pgdyno reap --run {self.journal.run}",
            )
        self.journal.prolong(expires)

    def release(self, name: str) -> None:
        """Give the host of target `name` back; `down` finds it free. Raises TargetError."""
        on_host(self.ssh(name), "give-back", self.journal.run, within_s=CLEAN_UP_S)
        self.journal.is_released(name)
        self.journal.forget(name)
        self.released[name] = datetime.now(UTC)

    def remove_all(self) -> list[Leftover]:
        """Give all hosts back; return those that cannot be cleaned up, and keep the journal for them."""
        return give_back(self.journal, self.say)


def ssh_of(noted: NotedResource) -> SshSpec:
    return SshSpec.model_validate(noted.ssh)


def host_of(journal: Journal, noted: NotedResource) -> Resource:
    """Return a noted host as a resource: its name and the run together tell what is to be given back."""
    name = f"{noted.name} (target {noted.target})"
    return Resource("host", name, name, "", journal.run, journal.expires)


def borrowed_hosts(journal: Journal) -> list[Resource]:
    """Return the hosts that the run of `journal` has. Raises TargetError."""
    return [
        host_of(journal, each)
        for each in journal.noted
        if on_host(ssh_of(each), "look", journal.run).strip() == "borrowed"
    ]


def give_back(journal: Journal, say: Say) -> list[Leftover]:
    """Give the hosts of `journal` back, side by side, and remove the journal if all are free; return the others."""

    def back(each: NotedResource) -> Leftover | None:
        try:
            said = on_host(ssh_of(each), "give-back", journal.run, within_s=CLEAN_UP_S)
        except TargetError as error:
            return Leftover(host_of(journal, each), _not_given_back(each, journal.expires, error.message))
        for line in said.splitlines():
            if line.startswith("kept: "):
                say(f"{each.name}: {line}")
        return None

    with ThreadPoolExecutor(max(1, len(journal.noted))) as workers:
        left = [each for each in workers.map(back, journal.noted) if each is not None]
    if not left:
        journal.close()
    return left


def _not_given_back(noted: NotedResource, expires: datetime, why: str) -> Message:
    return Message(
        "host-not-given-back",
        "host {host} (target {target}) is not given back: {why}; it cleans itself up after {expires}",
        host=noted.name,
        target=noted.target,
        why=why,
        expires=stamp(expires),
    )


def begin(plan: Plan, folder: Path, say: Say, lasts_s: float) -> Rental:
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
    expires = datetime.now(UTC) + timedelta(seconds=lasts_s)
    return Rental(plan, Journal.begin(folder, plan.name, digest_of(plan), expires), say)


def _settings(spec: PoolTarget, data: str) -> str:
    ours = {
        "listen_addresses": "*",
        "port": str(spec.port),
        "unix_socket_directories": data,
        "password_encryption": "scram-sha-256",
        "ssl": "on" if spec.tls else "off",
    }
    return settings_text(ours | spec.parameters)
