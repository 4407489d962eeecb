"""kind = "ec2": a host with a PostgreSQL from packages, set up by its user data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pgdyno.targets.aws.devices import DATA_DEVICE, WAL_DEVICE
from pgdyno.targets.aws.host import HostKeys, place_of_host, reached
from pgdyno.targets.aws.instances import Order, architecture_of, image_of, launch, network_of
from pgdyno.targets.aws.keys import new_certificate
from pgdyno.targets.aws.make import Maker
from pgdyno.targets.aws.place import USER, Place
from pgdyno.targets.aws.schema import Ec2Target
from pgdyno.targets.aws.user_data import server, user_data
from pgdyno.targets.aws.vpc import allowed_networks, security_group


@dataclass(frozen=True, slots=True)
class Ec2:
    """One target."""

    maker: Maker
    spec: Ec2Target
    password: str

    def up(self) -> Place:
        """Makes the host, and waits until its server is there. Raises TargetError."""
        maker, spec = self.maker, self.spec
        # what may be wrong is asked before anything is made
        architecture = architecture_of(maker.cloud, spec, [spec.instance, *spec.instead])
        image = image_of(maker.cloud, spec.system, architecture)
        network = network_of(maker.cloud, spec.subnet, spec.zones)
        allowed = allowed_networks(spec.allow)
        keys = HostKeys.new(maker.journal, maker.target)
        certificate = new_certificate(maker.name) if spec.tls else None
        if certificate is not None:
            keys.ring.trust(maker.target, certificate.public)
        told = user_data(keys.host(maker, spec), server(spec, self.password, certificate))
        group = security_group(maker, network.vpc, allowed, [spec.port, spec.ssh_port])
        named = ((DATA_DEVICE, spec.data), (WAL_DEVICE, spec.wal))
        volumes = {device: volume for device, volume in named if volume is not None}
        found = launch(maker, spec, Order(image, network, group, volumes, spec.root, told, by_minute=True))
        return reached(maker, spec, spec, keys, self._place(found))

    def _place(self, found: dict[str, Any]) -> Place:
        tls = "verify-ca" if self.spec.tls else "disable"
        return place_of_host(found, self.spec, port=self.spec.port, user=USER, version=self.spec.version, tls=tls)
