"""kind = "ec2": an EC2 host with PostgreSQL from packages, and the SSH login to such hosts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pgdyno.errors import TargetError
from pgdyno.plan.hosts import SshSpec
from pgdyno.remote.connect import ask
from pgdyno.remote.remote_host import RemoteError
from pgdyno.targets.aws.boto3_clients import AwsError, Patience
from pgdyno.targets.aws.hosts.instances import (
    Image,
    KeyRing,
    Network,
    Order,
    architecture_of,
    image_of,
    launch,
    network_of,
)
from pgdyno.targets.aws.hosts.schema import DATA_DEVICE, WAL_DEVICE, Ec2Target, Host
from pgdyno.targets.aws.hosts.user_data import REACHED_WITHIN_S, Job, new_nonce, public_host_key, server, user_data
from pgdyno.targets.aws.hosts.user_data import Host as HostData
from pgdyno.targets.aws.maker import Maker
from pgdyno.targets.aws.network import allowed_networks, security_group, what_blocks
from pgdyno.targets.aws.volumes import Volume
from pgdyno.targets.rented.packaged_server import USER
from pgdyno.targets.rented.rental_journal import Place, stamp
from pgdyno.units import duration_words, parse_duration_s

STATE = "cat ~/state"
"""The command that prints the state of the set-up, which setup.sh writes."""
CERTIFICATE = "cat ~/server.crt"
"""The command that prints the server's certificate, which setup.sh generates."""
_BEGIN = "-----BEGIN CERTIFICATE-----"


@dataclass(frozen=True, slots=True)
class NewHost:
    """A host with all that its request needs; nothing is created yet."""

    maker: Maker
    spec: Host
    image: Image
    ring: KeyRing
    nonce: str
    told: str
    """Its user data."""

    @classmethod
    def prepare(cls, maker: Maker, spec: Host, job: Job) -> NewHost:
        """Look the image up, and generate the run's own key if it has none yet. Raises TargetError."""
        image = image_of(maker.cloud, spec.system, architecture_of(maker.cloud, spec, [spec.instance, *spec.instead]))
        ring, nonce = KeyRing(maker.journal), new_nonce()
        host = HostData(nonce, spec.login, spec.ssh_port, ring.public_key(), stamp(maker.journal.expires))
        return cls(maker, spec, image, ring, nonce, user_data(host, job))

    def up(
        self,
        network: Network,
        group: str,
        volumes: Mapping[str, Volume],
        *,
        by_minute: bool = False,
        spot: bool = False,
    ) -> Place:
        """Create the host, and return its place, without a server, once it is ready. Raises TargetError."""
        maker, spec = self.maker, self.spec
        order = Order(self.image, network, group, volumes, spec.root, self.told, by_minute=by_minute, spot=spot)
        found = launch(maker, spec, order)
        inner = str(found["PrivateIpAddress"])
        place = Place(
            host=str(found.get("PublicIpAddress") or inner),
            port=0,
            user="",
            zone=found["Placement"]["AvailabilityZone"],
            instance=found["InstanceType"],
            version="",
            inner=inner,
            login=spec.login,
            ssh_port=spec.ssh_port,
        )
        # The host must be known before pgdyno talks to it.
        self.ring.know(place.host, place.ssh_port, public_host_key(maker, found["InstanceId"], self.nonce))
        ssh = self.ring.ssh(place)
        assert ssh is not None
        wait_until_set_up(maker, spec, ssh)
        return place


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
            if not answered and (reached.is_over() or patience.is_over()):
                raise _unreachable_error(maker, spec, ssh, error) from error
            state = "starting" if not answered else f"out of reach: {error.message}"
        if state == "ready":
            return
        if state.startswith("failed: "):
            step, *log = state.removeprefix("failed: ").splitlines()
            told_last = "".join(f"\n  {line}" for line in log)
            message = f"the host {ssh.host} could not be set up: {step}{told_last}"
            raise AwsError(message, code="Setup", hint="these are the last lines of its /var/log/pgdyno-setup.log")
        if patience.is_over():
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
        host = NewHost.prepare(maker, spec, server(spec, self.password))
        network = network_of(maker.cloud, spec.subnet, spec.zones)
        allowed = allowed_networks(spec.allow)
        group = security_group(maker, network.vpc, allowed, [spec.port, spec.ssh_port])
        named = ((DATA_DEVICE, spec.data), (WAL_DEVICE, spec.wal))
        volumes = {device: volume for device, volume in named if volume is not None}
        tls = "verify-ca" if spec.tls else "disable"
        place = host.up(network, group, volumes, by_minute=True)
        if spec.tls:
            host.ring.trust(maker.target, _certificate(host.ring.ssh(place)))
        return replace(place, port=spec.port, user=USER, version=spec.version, tls=tls)
