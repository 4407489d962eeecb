"""A simulated account for tests of rentals, and helpers for these tests."""

import functools
import os
import signal
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Protocol

import pytest
from botocore.loaders import Loader, create_loader

from pgdyno.commands.rented.target import up as bring_up
from pgdyno.errors import TargetError
from pgdyno.plan import Plan, load_plan
from pgdyno.targets import Home
from pgdyno.targets.aws import boto3_clients
from pgdyno.targets.aws import rental as life
from pgdyno.targets.aws.provider import PROVIDER
from pgdyno.targets.aws.removal import Reaper
from pgdyno.targets.aws.rental import Rental, begin
from pgdyno.targets.rented.provider import Wanted
from tests.aws.plans import write_plan
from tests.aws.simulator import Simulator, simulated

SAID: list[str] = []
PAUSES: list[float] = []
"""Seconds that boto3 would have slept before each repetition of a request."""


@functools.cache
def _loader(search_path: str | None = None) -> Loader:
    return create_loader(search_path)


class Rent(Protocol):
    """Rents the servers of a plan with these targets."""

    def __call__(self, *targets: str, repeats: int = 1) -> Rental: ...


CERTIFICATE = "-----BEGIN CERTIFICATE-----\n"
"""The certificate of every host without a real server."""


def use_account(simulator: Simulator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Directs this process to the account, in whose time it waits. Nothing answers at the addresses of its servers."""
    for name, value in simulator.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    monkeypatch.setattr(life, "wait_until_it_answers", lambda *_: None)
    monkeypatch.setattr("pgdyno.targets.aws.hosts.ec2.wait_until_set_up", lambda *_: None)
    monkeypatch.setattr("pgdyno.targets.aws.hosts.ec2.ask", lambda *_: CERTIFICATE)
    monkeypatch.setattr(boto3_clients, "time", simulator.clock)
    monkeypatch.setattr("botocore.endpoint.time", SimpleNamespace(sleep=PAUSES.append))
    # each session would parse the services' models again, which takes a third of these tests
    monkeypatch.setattr("botocore.session.create_loader", _loader)
    SAID.clear()
    PAUSES.clear()


@pytest.fixture
def amazon(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Simulator]:
    """A simulated account without real servers."""
    monkeypatch.setenv("PGDYNO_HOME", str(tmp_path / "home"))
    with simulated() as simulator:
        use_account(simulator, monkeypatch)
        yield simulator


@pytest.fixture
def rent(amazon: Simulator, tmp_path: Path) -> Iterator[Rent]:
    """Rents servers, removes them after the test, and asserts that nothing of them is left."""
    rented: list[Rental] = []

    def up(*targets: str, repeats: int = 1) -> Rental:
        rented.append(rental(tmp_path, *targets, repeats=repeats))
        rented[-1].up()
        return rented[-1]

    yield up
    assert [each.down() for each in rented] == [[]] * len(rented)
    assert [each for each in amazon.left() if each.startswith("pgdyno-")] == []


@pytest.fixture
def root(tmp_path: Path) -> Path:
    file = tmp_path / "root.pem"
    file.touch()
    return file


def rental(tmp_path: Path, *targets: str, repeats: int = 1) -> Rental:
    return begin(plan(tmp_path, *targets, repeats=repeats), tmp_path / "home", SAID.append, 3600)


def plan(tmp_path: Path, *targets: str, repeats: int = 1) -> Plan:
    return load_plan(write_plan(tmp_path / "plan", *targets, repeats=repeats)).plan


def failed(tmp_path: Path, *targets: str) -> TargetError:
    """Returns the error of `pgdyno target up`, and asserts that nothing is left in the account."""
    error = failed_blindly(tmp_path, *targets)
    assert Reaper(tmp_path / "another home").find(Wanted()) == []
    return error


def failed_blindly(tmp_path: Path, *targets: str) -> TargetError:
    """Returns the same error, without a search for what is left."""
    with pytest.raises(TargetError) as caught:
        bring_up(str(write_plan(tmp_path / "plan", *targets)), lasts="1h", yes=True)
    assert list(PROVIDER.journals(Home.locate().root)) == []
    return caught.value


def kill_at(amazon: Simulator, call: str, up: Callable[[], None], nth: int = 1) -> None:
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
    assert os.WIFSIGNALED(status), f"it was not killed at {call}"
