"""Database services and hosts behind the addresses of one simulated account."""

from __future__ import annotations

from tests.aws.ec2 import Machine
from tests.aws.ec2_hosts import Ec2Hosts
from tests.aws.hosts import PostgresHosts
from tests.postgres.tls_server import TlsServer


class Everything(PostgresHosts):
    """A real PostgreSQL behind servers of RDS and Aurora, a real sshd behind hosts."""

    def __init__(self, server: TlsServer, ec2: Ec2Hosts) -> None:
        super().__init__(server)
        self.ec2 = ec2

    def booted(self, machine: Machine) -> str:
        return self.ec2.booted(machine)

    def ended(self, machine: Machine) -> None:
        self.ec2.ended(machine)
