"""kind = "ec2": an EC2 host with PostgreSQL from packages, and the SSH login to such hosts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pgdyno.errors import TargetError
from pgdyno.plan.hosts import SshSpec
from pgdyno.remote.connect import ask
from pgdyno.remote.remote_host import RemoteError
from pgdyno.targets.aws.boto3_clients import AwsError, Patience
from pgdyno.targets.aws.hosts.instances import KeyRing, Order, architecture_of, image_of, launch, network_of
from pgdyno.targets.aws.hosts.schema import DATA_DEVICE, WAL_DEVICE, Ec2Target, Host
from pgdyno.targets.aws.hosts.user_data import REACHED_WITHIN_S, new_nonce, public_host_key, server, user_data
from pgdyno.targets.aws.hosts.user_data import Host as HostData
from pgdyno.targets.aws.maker import Maker
from pgdyno.targets.aws.network import allowed_networks, security_group, what_blocks
from pgdyno.targets.rented.packaged_server import USER
from pgdyno.targets.rented.rental_journal import Journal, Place, stamp
from pgdyno.units import duration_words, parse_duration_s

STATE = "cat ~/state"
"""The command that prints the state of the set-up, which setup.sh writes."""
CERTIFICATE = "cat ~/server.crt"
"""The command that prints the server's certificate, which setup.sh generates."""
_BEGIN = "-----BEGIN CERTIFICATE-----"


@dataclass(frozen=True, slots=True)
class HostKeys:
    """What opens a host that pgdyno is about to create, and how pgdyno will recognize it."""

    ring: KeyRing
    own: str
    """The public half of the run's own key."""
    nonce: str

    @classmethod
    def new(cls, journal: Journal) -> HostKeys:
        """Generate the run's own key if it has none yet. Raises TargetError."""
        ring = KeyRing(journal)
        return cls(ring, ring.own(), new_nonce())

    def host(self, maker: Maker, spec: Host) -> HostData:
        """Return what the host's user data contain about its login, keys and expiry."""
        return HostData(self.nonce, spec.login, spec.ssh_port, self.own, stamp(maker.journal.expires))


def wait_until_reachable(maker: Maker, spec: Host, keys: HostKeys, instance: str, place: Place) -> Place:
    """Return `place`, which is that of `instance`, once its host reports that it is ready.

    Its host key becomes a known one before that. Raises TargetError.
    """
    keys.ring.know(place.host, place.ssh_port, public_host_key(maker, instance, keys.nonce))
    ssh = keys.ring.ssh(place)
    assert ssh is not None
    wait_until_set_up(maker, spec, ssh)
    return place


def place_of_host(found: dict[str, Any], spec: Host, *, port: int, user: str, version: str, tls: str) -> Place:
    """Return the location of the instance that EC2 describes in `found`, and what runs on it."""
    inner = str(found["PrivateIpAddress"])
    return Place(
        host=str(found.get("PublicIpAddress") or inner),
        port=port,
        user=user,
        zone=found["Placement"]["AvailabilityZone"],
        instance=found["InstanceType"],
        version=version,
        tls=tls,
        inner=inner,
        login=spec.login,
        ssh_port=spec.ssh_port,
    )


def wait_until_set_up(maker: Maker, spec: Host, ssh: SshSpec) -> None:
    """Return once the host reports that it is ready. Raises TargetError if set-up fails, or without an answer."""
    within_s = parse_duration_s(spec.ready_within)
    patience, reached = Patience(within_s), Patience(REACHED_WITHIN_S)
    told, answered = "", False
    while True:
        maker.stop.check()
        try:
            state = ask(ssh, STATE).strip()
            answered = True
        except RemoteError as error:
            if not answered and (reached.over() or patience.over()):
                raise _unreachable_error(maker, spec, ssh, error) from error
            state = "starting" if not answered else f"out of reach: {error.message}"
        if state == "ready":
            return
        if state.startswith("failed: "):
            step, *log = state.removeprefix("failed: ").splitlines()
            told_last = "".join(f"\n  {line}" for line in log)
            message = f"the host {ssh.host} could not be set up: {step}{told_last}"
            raise AwsError(message, code="Setup", hint="these are the last lines of its /var/log/pgdyno-setup.log")
        if patience.over():
            message = f"the host {ssh.host} is still {state} after {duration_words(within_s)}"
            raise AwsError(message, code="Timeout", hint="give it more time: ready_within = …")
        if state != told:
            maker.say(f"{maker.name}: {state}")
            told = state
        patience.pause()


def _unreachable_error(maker: Maker, spec: Host, ssh: SshSpec, error: RemoteError) -> TargetError:
    if not error.passing:
        return TargetError(f"the host {ssh.host} is up: {error.message}", hint=error.hint)
    why, hint = what_blocks(maker.cloud, maker.journal.run, spec, spec.ssh_port)
    return TargetError(f"the host {ssh.host} is up, but cannot be reached over SSH: {why} ({error.message})", hint=hint)


def _certificate(ssh: SshSpec | None) -> str:
    """Return the certificate that the host has generated for its server. Raises TargetError."""
    assert ssh is not None
    try:
        found = ask(ssh, CERTIFICATE)
    except RemoteError as error:
        raise TargetError(f"the host {ssh.host} does not send its certificate: {error.message}") from error
    if not found.startswith(_BEGIN):
        raise TargetError(f"the host {ssh.host} sends no certificate: {found[:80]!r}")
    return found


@dataclass(frozen=True, slots=True)
class Ec2:
    maker: Maker
    spec: Ec2Target
    password: str

    def up(self) -> Place:
        """Create the host, and wait until its server is ready. Raises TargetError."""
        maker, spec = self.maker, self.spec
        # Errors in the plan must be reported before anything is created.
        architecture = architecture_of(maker.cloud, spec, [spec.instance, *spec.instead])
        image = image_of(maker.cloud, spec.system, architecture)
        network = network_of(maker.cloud, spec.subnet, spec.zones)
        allowed = allowed_networks(spec.allow)
        keys = HostKeys.new(maker.journal)
        told = user_data(keys.host(maker, spec), server(spec, self.password))
        group = security_group(maker, network.vpc, allowed, [spec.port, spec.ssh_port])
        named = ((DATA_DEVICE, spec.data), (WAL_DEVICE, spec.wal))
        volumes = {device: volume for device, volume in named if volume is not None}
        found = launch(maker, spec, Order(image, network, group, volumes, spec.root, told, by_minute=True))
        place = wait_until_reachable(maker, spec, keys, found["InstanceId"], self._place(found))
        if spec.tls:
            keys.ring.trust(maker.target, _certificate(keys.ring.ssh(place)))
        return place

    def _place(self, found: dict[str, Any]) -> Place:
        tls = "verify-ca" if self.spec.tls else "disable"
        return place_of_host(found, self.spec, port=self.spec.port, user=USER, version=self.spec.version, tls=tls)
