"""A simulated Amazon account whose addresses lead to real servers, and runs of pgdyno that rent from it."""

import getpass
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from pgdyno.store import RunFolder
from pgdyno.targets import Home
from tests.aws.ec2_hosts import Ec2Hosts
from tests.aws.plans import ec2, generator, write_plan
from tests.aws.simulator import Simulator, simulated
from tests.forked import run_pgdyno
from tests.ports import EVERYWHERE, reserve_port
from tests.postgres.runs import environment, the_run

H = TypeVar("H", bound=Ec2Hosts)
LOGIN = getpass.getuser()


@dataclass
class RealAccount(Generic[H]):
    """The account, whose plans and runs are in `folder`."""

    simulator: Simulator
    hosts: H
    home: Home
    folder: Path
    ssh_port: int
    port: int

    @property
    def environment(self) -> dict[str, str]:
        # the user's password of other servers is not that of rented ones
        own = {"PGDYNO_ADDRESS": "203.0.113.7", "PGPASSWORD": "of another server"}
        return {**environment(self.home), **self.simulator.environment, **own}

    def pgdyno(self, *args: str | Path, code: int = 0) -> str:
        done = run_pgdyno([str(each) for each in args], cwd=self.folder, env=self.environment)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def plan(self, *targets: str, repeats: int = 1, more: str = "") -> Path:
        return write_plan(self.folder, *targets, repeats=repeats, more=more)

    def run(self) -> RunFolder:
        return the_run(self.folder)

    def target(self, **more: str) -> str:
        return ec2(**({"login": f'"{LOGIN}"', "ssh_port": str(self.ssh_port), "port": str(self.port)} | more))

    def generator(self, **more: str) -> str:
        return generator(login=f'"{LOGIN}"', ssh_port=str(self.ssh_port), **more)

    def left_files(self) -> list[str]:
        return [each.name for each in (self.home.root / "aws").iterdir()]


@contextmanager
def real_account(hosts: H, home: Home, folder: Path) -> Iterator[RealAccount[H]]:
    """Yields an account with these hosts, and removes them with their folder after the block."""
    try:
        with simulated(Simulator(hosts)) as simulator:
            simulator.machines.console_late_s = 3
            ports = (reserve_port(hosts, EVERYWHERE), reserve_port(hosts, EVERYWHERE))
            yield RealAccount(simulator, hosts, home, folder, *ports)
    finally:
        hosts.stop()
        shutil.rmtree(hosts.folder, ignore_errors=True)
