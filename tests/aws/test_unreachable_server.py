"""A generator that does not reach a server: how packets end in a real network, and the messages about it."""

import os
import subprocess
from collections.abc import Iterator

import pytest
from moto.ec2.models import ec2_backends

from pgdyno.plan.hosts import SshSpec
from pgdyno.remote.remote_host import CommandError
from pgdyno.targets.aws.hosts import generator_hosts
from tests.aws.account import Account
from tests.aws.plans import HERE, ec2, generator
from tests.aws.simulator import ACCOUNT, REGION

SERVER = "198.51.100.1"
"""Where the simulator's first host is."""
ROUTE = "so the route is missing"


class Network:
    """Where a generator's commands run."""

    def __init__(self, pid: int) -> None:
        self._within = ["nsenter", "-t", str(pid), "-n"]

    def ip(self, command: str) -> None:
        subprocess.run([*self._within, "ip", *command.split()], check=True)

    def ask(self, spec: SshSpec, command: str) -> str:
        """As over SSH: what it prints, or why not."""
        done = subprocess.run([*self._within, "bash", "-c", command], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise CommandError(spec.host, command, done.returncode, "".join(done.stderr.splitlines()[-1:]))
        return done.stdout


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Iterator[Network]:
    """A network with an interface that leads nowhere, and without routes."""
    if os.geteuid() != 0:
        pytest.skip("only root can make namespaces: run it as root, as CI does")
    steps = (
        "ip link add card type veth peer name behind",
        "ip link set behind up",
        "ip link set card arp off up",
        "ip addr add 192.0.2.1/24 dev card",
        "echo ready",
        "exec sleep 600",
    )
    holder = subprocess.Popen(["unshare", "-n", "bash", "-c", " && ".join(steps)], stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"ready\n"
        made = Network(holder.pid)
        monkeypatch.setattr(generator_hosts, "ask", made.ask)
        monkeypatch.setattr(generator_hosts, "REACH_S", 1)
        yield made
    finally:
        holder.kill()
        holder.communicate()


def failure_text(amazon: Account) -> str:
    return amazon.failed(ec2(instance=f'"{HERE}"'), generator()).message


def test_routes_are_named_where_packets_are_dropped_elsewhere(amazon: Account, network: Network) -> None:
    # a card eats them: no answer of any kind
    network.ip(f"route add {SERVER}/32 dev card")
    message = failure_text(amazon)
    assert f"does not reach the server of target ec2 at {SERVER}, port 5432: no answer within 1 s" in message
    assert "the security group allows it" in message
    assert ROUTE in message


def test_a_changed_group_is_named_for_lost_packets(amazon: Account, network: Network) -> None:
    network.ip(f"route add {SERVER}/32 dev card")

    def close(action: str, _number: int) -> None:
        if action != "ec2:RunInstances":
            return
        for of_vpc in ec2_backends[ACCOUNT][REGION].groups.values():
            for each in of_vpc.values():
                each.ingress_rules = [rule for rule in each.ingress_rules if not rule.source_group]

    amazon.on_call = close
    message = failure_text(amazon)
    assert "no answer within 1 s" in message
    assert "the server's security group does not allow it" in message
    assert ROUTE not in message


@pytest.mark.usefixtures("network")
def test_a_missing_route_is_reported_as_the_cause(amazon: Account) -> None:
    message = failure_text(amazon)
    assert "Network is unreachable" in message
    assert "it has no route there" in message


def test_a_server_that_listens_no_more_is_neither(amazon: Account, network: Network) -> None:
    network.ip("link set lo up")
    network.ip(f"addr add {SERVER}/32 dev lo")
    message = failure_text(amazon)
    assert "the port is reachable, but nothing listens there" in message
    assert ROUTE not in message
