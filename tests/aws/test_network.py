"""Zone and address of this machine, and a generator that does not reach a server: how packets end in a real network."""

import os
import subprocess
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest
from moto.ec2.models import ec2_backends

from pgdyno.errors import TargetError
from pgdyno.plan.hosts import SshSpec
from pgdyno.remote.remote_host import CommandError
from pgdyno.targets.aws import location, network
from pgdyno.targets.aws.hosts import generator_hosts
from pgdyno.targets.aws.hosts.generator_hosts import check_reach
from tests.aws.account import Account
from tests.aws.plans import HERE, ec2, generator
from tests.aws.simulator import ACCOUNT, REGION
from tests.hosts.metadata import Handler
from tests.listening import serving


def test_this_machines_own_address(monkeypatch: pytest.MonkeyPatch) -> None:
    for told, allowed in (("203.0.113.9\n", "203.0.113.9/32"), ("2001:db8::1", "2001:db8::1/128")):
        monkeypatch.setenv(network.ADDRESS_VARIABLE, told)
        assert network.allowed_networks([]) == [allowed]
    monkeypatch.setenv(network.ADDRESS_VARIABLE, "<html>")
    with pytest.raises(TargetError, match="cannot determine this machine's address"):
        network.allowed_networks([])


def test_the_zone_comes_from_a_metadata_service_that_is_switched_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    zone = tmp_path / "meta-data" / "placement" / "availability-zone"
    zone.parent.mkdir(parents=True)
    zone.write_text("eu-central-1b")
    monkeypatch.setattr(Handler, "folder", tmp_path, raising=False)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    monkeypatch.setenv(location.ENDPOINT, f"http://127.0.0.1:{server.server_address[1]}")
    monkeypatch.delenv(location.DISABLED, raising=False)

    def own_zone() -> str | None:
        location.own_zone.cache_clear()
        return location.own_zone()

    with serving(server):
        assert own_zone() == "eu-central-1b"
        monkeypatch.setenv(location.DISABLED, "true")
        assert own_zone() is None
        monkeypatch.delenv(location.DISABLED)
        # any other answer means that the service is not there
        monkeypatch.setattr(Handler, "do_PUT", lambda self: self._answer(403, "no"))
        assert own_zone() is None
    location.own_zone.cache_clear()


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
def dead_end(monkeypatch: pytest.MonkeyPatch) -> Iterator[Network]:
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
        monkeypatch.setattr(generator_hosts, "check_reach", check_reach)
        monkeypatch.setattr(generator_hosts, "ask", made.ask)
        monkeypatch.setattr(generator_hosts, "REACH_S", 1)
        yield made
    finally:
        holder.kill()
        holder.communicate()


def failure_text(amazon: Account) -> str:
    return amazon.failed(ec2(instance=f'"{HERE}"'), generator()).message


def test_the_cause_of_lost_packets_is_named(amazon: Account, dead_end: Network) -> None:
    message = failure_text(amazon)
    assert "Network is unreachable" in message
    assert "it has no route there" in message
    # a card eats them: no answer of any kind
    dead_end.ip("route add 198.51.100.0/24 dev card")
    message = failure_text(amazon)
    # the third host
    assert "does not reach the server of target ec2 at 198.51.100.3, port 5432: no answer within 1 s" in message
    assert "the security group allows it" in message
    assert ROUTE in message

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


def test_a_server_that_listens_no_more_is_neither(amazon: Account, dead_end: Network) -> None:
    dead_end.ip("link set lo up")
    dead_end.ip(f"addr add {SERVER}/32 dev lo")
    message = failure_text(amazon)
    assert "the port is reachable, but nothing listens there" in message
    assert ROUTE not in message
