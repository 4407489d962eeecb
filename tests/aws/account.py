"""A simulated account for tests of rentals, and what these tests ask of it."""

import os
import signal
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pgdyno.commands.rented.target import up as bring_up
from pgdyno.errors import TargetError
from pgdyno.plan import Plan, load_plan
from pgdyno.targets import Home
from pgdyno.targets.aws import boto3_clients
from pgdyno.targets.aws import rental as life
from pgdyno.targets.aws.boto3_clients import Cloud
from pgdyno.targets.aws.provider import PROVIDER
from pgdyno.targets.aws.removal import Reaper
from pgdyno.targets.aws.rental import Rental, begin
from pgdyno.targets.rented.provider import Wanted
from pgdyno.targets.rented.rental import Rental as AnyRental
from pgdyno.targets.rented.rental import Resource
from tests.aws.plans import write_plan
from tests.aws.simulator import REGION, Simulator, simulated

SAID: list[str] = []
PAUSES: list[float] = []
"""Seconds that boto3 would have slept before each repetition of a request."""


CERTIFICATE = "-----BEGIN CERTIFICATE-----\n"
"""The certificate of every host without a real server."""


@dataclass
class Account(Simulator):
    """A simulated account without real servers, and what pgdyno does in it with its files in `folder`."""

    folder: Path = Path()
    is_left: bool = False
    """Whether servers may be left at the end of the test."""

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def plan(self, *targets: str, repeats: int = 1, more: str = "", changes: Sequence[str] = ()) -> Plan:
        return load_plan(write_plan(self.folder / "plan", *targets, repeats=repeats, more=more), changes).plan

    def rental(self, *targets: str, lasts_s: float = 3600, repeats: int = 1) -> Rental:
        return begin(self.plan(*targets, repeats=repeats), self.home, SAID.append, lasts_s)

    def hold(self, *targets: str, lasts_s: float = 3600, repeats: int = 1) -> Rental:
        """Rents servers, which the test holds and must remove."""
        rental = self.rental(*targets, lasts_s=lasts_s, repeats=repeats)
        rental.up()
        return rental

    def up(self, *targets: str, lasts_s: float = 3600, repeats: int = 1) -> Rental:
        """Rents servers, which nobody holds."""
        rental = self.hold(*targets, lasts_s=lasts_s, repeats=repeats)
        rental.journal.release()
        return rental

    def rent(self, *targets: str, repeats: int = 1) -> Rental:
        """Rents servers that vanish with the account: their removal proves nothing more."""
        self.is_left = True
        return self.hold(*targets, repeats=repeats)

    def failed(self, *targets: str, repeats: int = 1) -> TargetError:
        """Returns the error of `pgdyno target up`, and asserts that nothing of pgdyno's is left."""
        with pytest.raises(TargetError) as caught:
            bring_up(str(write_plan(self.folder / "plan", *targets, repeats=repeats)), lasts="1h", yes=True)
        assert list(PROVIDER.journals(Home.locate().root)) == []
        assert self.left() == []
        return caught.value

    def standing(self, rental: Rental) -> AnyRental | None:
        return PROVIDER.standing_rental(rental.plan, self.home, SAID.append)

    def journals(self) -> list[str]:
        """Returns the runs of which this machine has a journal."""
        return [each.run for each in PROVIDER.journals(self.home)]

    def reaper(self, home: str = "home") -> Reaper:
        """Returns that of this machine, or of another one, which knows only what the account tells."""
        return Reaper(self.folder / home)

    def reap(self, home: str = "home", **wanted: Any) -> Sequence[Resource]:
        """Removes what there is, all of which must go, and returns it."""
        done = self.reaper(home).reap(Wanted(**wanted), SAID.append)
        assert done.left == []
        return done.found

    def asked(self, action: str) -> list[dict[str, Any]]:
        """Returns the parameters of all requests for an action."""
        return [given for name, given in zip(self.calls, self.parameters, strict=True) if name == action]


def use_account(simulator: Simulator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Directs this process to the account, in whose time it waits. Nothing answers at the addresses of its servers."""
    for name, value in simulator.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    monkeypatch.setattr(life, "wait_until_it_answers", lambda *_: None)
    monkeypatch.setattr("pgdyno.targets.aws.hosts.ec2.wait_until_set_up", lambda *_: None)
    monkeypatch.setattr("pgdyno.targets.aws.hosts.ec2.ask", lambda *_: CERTIFICATE)
    monkeypatch.setattr("pgdyno.targets.aws.hosts.generator_hosts.check_reach", lambda *_: None)
    monkeypatch.setattr(boto3_clients, "time", simulator.clock)
    monkeypatch.setattr("botocore.endpoint.time", SimpleNamespace(sleep=PAUSES.append))
    SAID.clear()
    PAUSES.clear()


@pytest.fixture
def amazon(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Account]:
    """An account in which the test leaves nothing of pgdyno's, except for what it rents with `rent`."""
    monkeypatch.setenv("PGDYNO_HOME", str(tmp_path / "home"))
    with simulated(Account(folder=tmp_path)) as account:
        use_account(account, monkeypatch)
        yield account
        assert account.is_left or [each for each in account.left() if each.startswith("pgdyno-")] == []


def kill_at(amazon: Account, call: str, up: Callable[[], None], nth: int = 1) -> None:
    """Runs `up` in a child process, and kills it after the execution of its nth `call`, before the response.

    Requests that it sent in parallel are executed, too.
    """
    with warnings.catch_warnings():
        # the simulator's threads are not needed in the child
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        try:
            up()
        finally:
            os._exit(0)

    seen: list[str] = []

    def kill(action: str, _number: int) -> None:
        seen.append(action)
        if action == call and seen.count(call) == nth:
            os.kill(pid, signal.SIGKILL)

    amazon.on_call = kill
    _, status = os.waitpid(pid, 0)
    amazon.settle()
    amazon.on_call = lambda _action, _number: None
    assert os.WIFSIGNALED(status), f"it was not killed at {call}"


# ---- databases and snapshots that exist without a plan ----

_OWN = {"EngineVersion": "18.1", "MasterUsername": "pgdyno", "MasterUserPassword": "a password of theirs"}


def make_instance(name: str) -> None:
    """Creates the instance `name` with Performance Insights."""
    size = {"DBInstanceClass": "db.m7g.large", "AllocatedStorage": 20, "EnablePerformanceInsights": True}
    Cloud(REGION).call("rds", "create_db_instance", DBInstanceIdentifier=name, Engine="postgres", **size, **_OWN)


def take_snapshot(simulator: Simulator, name: str, kind: str = "rds") -> None:
    """Takes the snapshot `name` of the server `theirs`."""
    simulator.administrator = True
    if kind == "aurora":
        cluster = {"DBClusterIdentifier": "theirs"}
        Cloud(REGION).call("rds", "create_db_cluster", **cluster, Engine="aurora-postgresql", **_OWN)
        simulator.finish_changes()
        Cloud(REGION).call("rds", "create_db_cluster_snapshot", **cluster, DBClusterSnapshotIdentifier=name)
    else:
        make_instance("theirs")
        simulator.finish_changes()
        Cloud(REGION).call("rds", "create_db_snapshot", DBInstanceIdentifier="theirs", DBSnapshotIdentifier=name)
    simulator.finish_changes()
    simulator.administrator = False
