"""Real database servers and hosts at the addresses of one simulated account."""

from tests.aws.ec2 import Machine
from tests.aws.ec2_hosts import Ec2Hosts
from tests.aws.postgres_hosts import PostgresHosts
from tests.postgres.tls_server import TlsServer


class Everything(PostgresHosts):
    """Runs a real PostgreSQL for servers of RDS and Aurora, and a real sshd for hosts."""

    def __init__(self, server: TlsServer, ec2: Ec2Hosts) -> None:
        super().__init__(server)
        self.ec2 = ec2

    def booted(self, machine: Machine) -> str:
        return self.ec2.booted(machine)

    def console(self, machine: Machine) -> str:
        return self.ec2.console(machine)

    def ended(self, machine: Machine) -> None:
        self.ec2.ended(machine)
