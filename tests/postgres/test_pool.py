"""A pool of one host that really boots: systemd, apt, sshd. Plans borrow it, and leave it as it was.

Only root can create such a host (namespaces, mounts): other users skip this test, with a message. CI is root.
"""

import base64
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from pgdyno.plan.hosts import SshSpec
from pgdyno.records import Outcome
from pgdyno.remote import RemoteError
from pgdyno.remote.connect import ask, new_key
from pgdyno.store import RunFolder, list_runs, load_run
from pgdyno.targets import Home
from tests.forked import PGDYNO
from tests.hosts import pgdg
from tests.hosts.booted import Booted, booted_hosts
from tests.postgres.runs import environment
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make namespaces: run them as root, as CI does")
PACKAGES = "dpkg-query -W -f '${Package} ${db:Status-Status}\\n' | awk '$2 == \"installed\"' | sort"


@dataclass
class Rack:
    host: Booted
    ssh: SshSpec
    home: Path
    folder: Path

    def start(self, *args: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [PGDYNO, *args], cwd=self.folder, env={**environment(Home.locate()), "PGDYNO_HOME": str(self.home)},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def pgdyno(self, *args: str, code: int = 0) -> str:
        process = self.start(*args)
        said, _ = process.communicate(timeout=300)
        assert process.returncode == code, said
        return said

    def journals(self) -> list[Path]:
        return [*self.home.glob("**/pool/*.jsonl")]

    def look(self) -> str:
        return self.host.run(
            f"{PACKAGES}; ls /etc/apt/sources.list.d /srv; ls /etc/postgresql-common/createcluster.d 2>/dev/null;"
            "systemctl list-units --all --plain --no-legend 'pgdyno*' | cut -d' ' -f1;"
            "ls /var/lib/pgdyno-pool/{borrowed,packages,files,folder} 2>/dev/null",
            check=False,
        )


@pytest.fixture
def rack(home: Home, scratch: Path) -> Iterator[Rack]:
    private, public = new_key("tests")
    (scratch / "key").write_text(private)
    (scratch / "key").chmod(0o600)
    (scratch / "config").write_text(f"Host *\n  IdentityFile {scratch / 'key'}\n  IdentitiesOnly yes\n")
    host_private, host_public = new_key("host")
    user = {"name": "bench", "sudo": "ALL=(ALL) NOPASSWD:ALL", "shell": "/bin/bash", "ssh_authorized_keys": [public]}
    config = {"users": [user], "ssh_keys": {"ed25519_private": host_private, "ed25519_public": host_public}}
    root = {"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 8}}
    data = base64.b64encode(f"#cloud-config\n{json.dumps(config)}\n".encode()).decode()
    with booted_hosts(home, scratch) as hosts, pgdg.pgdg(hosts, scratch):
        asked = {"UserData": data, "BlockDeviceMappings": [root]}
        address = hosts.booted(SimpleNamespace(id="rack", number=0, asked=asked, tags={}))  # type: ignore[arg-type]
        known = scratch / "known_hosts"
        known.write_text(f"{address} {' '.join(host_public.split()[:2])}\n")
        ssh = SshSpec(host=address, user="bench", config=str(scratch / "config"), known_hosts=str(known))
        wait_until(lambda: _is_ready(ssh), 120)
        yield Rack(hosts.known["rack"], ssh, scratch / "home", scratch)


def _is_ready(ssh: SshSpec) -> bool:
    try:
        ask(ssh, "cloud-init status --wait", 120)
    except RemoteError:
        return False
    return True


def plan(rack: Rack, name: str, **keys: str) -> str:
    given = {
        "version": '"15"',
        "hosts": f'[{{ host = "{rack.ssh.host}", user = "bench", config = "{rack.ssh.config}", '
        f'known_hosts = "{rack.ssh.known_hosts}" }}]',
        "parameters": '{ shared_buffers = "32MB", search_path = "a\'b, public" }',
        "initdb": '["--data-checksums"]',
        **keys,
    }
    lines = "".join(f"{key} = {value}\n" for key, value in given.items())
    file = rack.folder / f"{name}.toml"
    file.write_text(
        f'name = "{name}"\n[target.mine]\nkind = "pool"\n{lines}[workload]\nscale = 1\nscripts = ["tpcb-like"]\n'
        '[sweep]\nclients = 2\n[trial]\nwarmup = "0s"\nduration = "1s"\nrepeats = 1\n'
    )
    return str(file)


@pytest.mark.long
def test_a_host_is_borrowed_and_given_back(rack: Rack) -> None:
    before = rack.look()
    what_goes_wrong_is_said(rack, before)
    what_a_killed_run_left_is_found(rack, before)
    said = rack.pgdyno("target", "up", plan(rack, "up"))
    (dsn,) = [line.removeprefix("mine: ") for line in said.splitlines() if line.startswith("mine: host=")]
    the_server_is_as_asked(rack, dsn)
    what_is_up_is_one_plans_alone(rack)
    a_host_that_nobody_returns_returns_itself(rack, before)


def what_goes_wrong_is_said(rack: Rack, before: str) -> None:
    said = rack.pgdyno("target", "up", plan(rack, "odd", port="22"), code=4)
    assert "target mine: the host" in said
    assert "port 22 is in use: choose another one" in said
    assert rack.look() == before
    rack.host.run("mv /etc/sudoers.d /etc/sudoers.away")
    said = rack.pgdyno("target", "up", plan(rack, "odd"), code=4)
    assert "pgdyno needs root there: " in said
    rack.host.run("mv /etc/sudoers.away /etc/sudoers.d")
    # as on a host with another family of packages
    rack.host.run("mv /usr/bin/apt-get /usr/bin/dnf")
    said = rack.pgdyno("target", "up", plan(rack, "odd"), code=4)
    assert "it installs packages by dnf, not by apt-get" in said
    assert 'name a host with Debian or Ubuntu; or set up a server there yourself, and use kind = "dsn"' in said
    rack.host.run("mv /usr/bin/dnf /usr/bin/apt-get")
    assert rack.look() == before
    assert rack.journals() == []


def what_a_killed_run_left_is_found(rack: Rack, before: str) -> None:
    process = rack.start("run", plan(rack, "killed"), "--no-preflight")

    def is_noted() -> bool:
        assert process.poll() is None
        return "noted" in rack.host.run("test -s /var/lib/pgdyno-pool/packages && echo noted", check=False)

    wait_until(is_noted, 120)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    (run,) = rack.journals()
    assert f"removed: host {rack.ssh.host} (target mine)" in rack.pgdyno("reap", "--run", run.stem)
    assert rack.look() == before
    assert rack.journals() == []


def the_server_is_as_asked(rack: Rack, dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        wanted = {"shared_buffers": "32MB", "search_path": "a'b, public", "data_checksums": "on"}
        question = "SELECT name, current_setting(name) FROM pg_settings WHERE name = ANY (%s)"
        assert dict(connection.execute(question, [[*wanted]]).fetchall()) == wanted
        found = connection.execute("SELECT version FROM pg_stat_ssl WHERE pid = pg_backend_pid()").fetchone()
        assert found == ("TLSv1.3",)
    with pytest.raises(psycopg.OperationalError, match="no encryption"):
        psycopg.connect(make_conninfo(dsn, sslmode="disable")).close()
    assert pgdg.VERSION in rack.host.run("dpkg-query -W -f '${Version}' postgresql-15")
    # the distribution's own cluster was not created
    assert rack.host.run("pg_lsclusters --no-header") == ""


def what_is_up_is_one_plans_alone(rack: Rack) -> None:
    busy = rack.pgdyno("run", plan(rack, "other"), "--no-preflight", code=4)
    assert "no host is free" in busy
    assert "has it until" in busy
    # the plan's own run takes what is up, and leaves it
    assert "using the servers that are already up" in rack.pgdyno("run", plan(rack, "up"), "--no-preflight")
    (entry,) = [each for each in list_runs(rack.folder / "pgdyno-runs") if each.name.partition("-")[2].startswith("up")]
    run = load_run(RunFolder.open(entry.path))
    (trial,) = run.trials
    assert trial.outcome is Outcome.FINISHED
    assert f"host {rack.ssh.host} (target mine)" in rack.pgdyno("target", "status", plan(rack, "up"))


def a_host_that_nobody_returns_returns_itself(rack: Rack, before: str) -> None:
    (run,) = rack.journals()
    for seconds in ("7200", "3600"):
        assert rack.host.run(f"bash /var/lib/pgdyno-pool/host.sh prolong {run.stem} {seconds}") == "borrowed"
    # as its timer would
    rack.host.run("systemctl start --wait pgdyno-pool-expiry.service")
    assert rack.look() == before
    assert "all resources removed" in rack.pgdyno("target", "down", plan(rack, "up"))
    assert rack.journals() == []
