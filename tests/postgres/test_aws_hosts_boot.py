"""Hosts of "EC2" that really boot: systemd, cloud-init, apt and volumes, with the user data that Amazon would get.

Only root can create them (namespaces, loop devices, mounts): other users skip these tests, with a message. CI is root.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from pgdyno.errors import TargetError
from pgdyno.plan import load_plan
from pgdyno.plan.hosts import SshSpec
from pgdyno.remote import RemoteError
from pgdyno.remote.connect import ask, new_key
from pgdyno.targets import Home
from pgdyno.targets.aws import boto3_clients
from pgdyno.targets.aws.rental import Rental, begin
from tests.aws.ec2 import Machine
from tests.aws.plans import ec2, write_plan
from tests.aws.simulator import Simulator, simulated
from tests.hosts import pgdg
from tests.hosts.booted import Booted, BootedHosts, booted_hosts
from tests.postgres.tls_server import Certificates

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can make namespaces: run them as root, as CI does"),
]
PLAN = {
    "version": '"15"',
    "packages": '"pgdg"',
    "data": '{ size = "2GB", mount_options = ["noatime", "data=writeback"] }',
    "wal": '{ size = "1GB", file_system = "xfs", mount_options = ["noatime", "logbsize=64k"] }',
    "initdb": '["--data-checksums", "--wal-segsize=4"]',
    # so few that no other server here can take the huge pages before this one does
    "parameters": """{ shared_buffers = "1MB", max_connections = "12", search_path = "a'b, public" }""",
    "huge_pages": "true",
}
# another process holds apt's lists when the set-up needs them, until the set-up has noticed
HOLD = """\
import fcntl, time
lock = open("/var/lib/apt/lists/lock", "w")
fcntl.lockf(lock, fcntl.LOCK_EX)
while True:
    try:
        if "Could not get lock" in open("/var/log/pgdyno-setup.log").read():
            break
    except FileNotFoundError:
        pass
    time.sleep(0.1)
"""
HELD = {
    "usr/local/lib/hold.py": HOLD,
    "etc/systemd/system/hold.service": "[Service]\nType=exec\nExecStart=/usr/bin/python3 /usr/local/lib/hold.py\n",
    "etc/systemd/system/multi-user.target.d/hold.conf": "[Unit]\nWants=hold.service\n",
}


@pytest.fixture
def hosts(home: Home, scratch: Path) -> Iterator[BootedHosts]:
    pages = Path("/proc/sys/vm/nr_hugepages")
    before = pages.read_text()
    try:
        with booted_hosts(home, scratch) as made:
            yield made
    finally:
        # the kernel is the hosts', too
        pages.write_text(before)


@pytest.fixture
def amazon(hosts: BootedHosts, monkeypatch: pytest.MonkeyPatch) -> Iterator[Simulator]:
    with simulated(Simulator(hosts)) as simulator:
        simulator.machines.console_late_s = 3
        for name, value in {**simulator.environment, "PGDYNO_ADDRESS": "203.0.113.7"}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.delenv("AWS_PROFILE", raising=False)
        monkeypatch.setattr(boto3_clients, "LONGEST_S", 0.5)
        yield simulator


def rental(scratch: Path, **more: str) -> Rental:
    plan = load_plan(write_plan(scratch / "plan", ec2(**{**PLAN, **more}))).plan
    return begin(plan, scratch / "home", print, 3600)


def test_a_host_from_its_user_data_to_its_end(amazon: Simulator, hosts: BootedHosts, scratch: Path) -> None:
    with pgdg.pgdg(hosts, scratch):
        hosts.prepare |= HELD
        rented = rental(scratch)
        rented.up()
        (host,), (machine,) = hosts.known.values(), amazon.machines.all.values()
        connection = rented.connection("ec2")
        assert connection.ssh is not None
        cloud_init_has_no_complaint(host)
        packages_are_the_projects(host)
        volumes_are_where_they_belong(host)
        the_server_is_as_asked(connection.dsn)
        only_its_user_gets_in(connection.dsn, host, scratch)
        only_our_key_opens_the_host(connection.ssh, host, scratch)
        another_run_changes_nothing(host)
    it_ends_itself_when_its_tag_says_so(machine, host, hosts)
    amazon.machines.shut_down(machine)
    assert rented.remove_all() == []
    assert amazon.left() == []


def cloud_init_has_no_complaint(host: Booted) -> None:
    assert "status: done" in host.run("cloud-init status --wait --long")
    assert "Valid cloud-config" in host.run("cloud-init schema --system")
    assert host.run("grep -c -e WARNING -e Traceback /var/log/cloud-init.log", check=False) == "0"
    # of the kinds of keys only the one that it is known by
    assert host.run("cd /etc/ssh && echo ssh_host_*") == "ssh_host_ed25519_key ssh_host_ed25519_key.pub"
    enabled = host.run("systemctl list-unit-files --state=enabled --no-legend | cut -d' ' -f1").split()
    assert {"pgdyno-expiry.service", "ssh.service"} <= set(enabled)
    assert not [each for each in enabled if each.endswith(".timer") or each.startswith("unattended")]
    assert host.run("systemctl is-active pgdyno-expiry postgresql@15-main").split() == ["active", "active"]


def packages_are_the_projects(host: Booted) -> None:
    assert "Could not get lock /var/lib/apt/lists/lock" in host.log()
    versions = host.run("dpkg-query -W -f '${Version}\\n' postgresql-15 postgresql-client-15").split()
    assert versions == [pgdg.VERSION, pgdg.VERSION]
    assert f"Signed-By: /{pgdg.KEY}" in host.run("cat /etc/apt/sources.list.d/pgdg.sources")
    # Debian's own cluster was not created next to pgdyno's
    assert host.run("pg_lsclusters --no-header").split()[:3] == ["15", "main", "5432"]


def volumes_are_where_they_belong(host: Booted) -> None:
    """Volumes are mounted where the plan wants them, although Amazon numbers NVMe devices in another order."""
    data = host.run("findmnt -n -o SOURCE,FSTYPE,OPTIONS -M /srv/pgdyno/data").split()
    wal = host.run("findmnt -n -o SOURCE,FSTYPE,OPTIONS -M /srv/pgdyno/wal").split()
    assert (data[:2], wal[:2]) == (["/dev/nvme3n1", "ext4"], ["/dev/nvme2n1", "xfs"])
    assert {"noatime", "data=writeback"} <= set(data[2].split(","))
    assert {"noatime", "logbsize=64k"} <= set(wal[2].split(","))
    # and so again after a restart of the host
    host.run("systemctl stop postgresql@15-main && umount /srv/pgdyno/data /srv/pgdyno/wal && mount --all")
    assert host.run("findmnt -n -o OPTIONS -M /srv/pgdyno/wal") == wal[2]
    host.run("systemctl start postgresql@15-main")
    assert host.run("findmnt -n -o TARGET -T $(readlink /srv/pgdyno/data/postgres/main/pg_wal)") == "/srv/pgdyno/wal"


def the_server_is_as_asked(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        wanted = {
            "data_directory": "/srv/pgdyno/data/postgres/main", "shared_buffers": "1MB", "max_connections": "12",
            "search_path": "a'b, public", "huge_pages": "on", "data_checksums": "on", "wal_segment_size": "4MB",
            "server_encoding": "UTF8", "lc_collate": "C.UTF-8",
        }  # fmt: skip
        question = "SELECT name, current_setting(name) FROM pg_settings WHERE name = ANY (%s)"
        assert dict(connection.execute(question, [[*wanted]]).fetchall()) == wanted
        kept = connection.execute("SELECT rolname, rolpassword FROM pg_authid WHERE rolcanlogin").fetchall()
        assert {name: (word or "").partition("$")[0] for name, word in kept} == {
            "pgdyno": "SCRAM-SHA-256",
            "postgres": "",
        }
        found = connection.execute("SELECT version FROM pg_stat_ssl WHERE pid = pg_backend_pid()").fetchone()
        assert found == ("TLSv1.3",)
    # they are in use, not only reserved
    held = re.findall(r"HugePages_(Total|Free): +(\d+)", Path("/proc/meminfo").read_text())
    assert int(dict(held)["Free"]) < int(dict(held)["Total"])


def only_its_user_gets_in(dsn: str, host: Booted, scratch: Path) -> None:
    Certificates(scratch).issue_itself("other", "pgdyno")
    other = scratch / "other.crt"
    for change, said in (
        ({"sslmode": "disable"}, "no encryption"),
        ({"password": "wrong"}, "password authentication failed"),
        ({"user": "postgres"}, "no pg_hba.conf entry"),
        ({"sslrootcert": str(other)}, "certificate verify failed"),
    ):
        with pytest.raises(psycopg.OperationalError, match=said):
            psycopg.connect(make_conninfo(dsn, **change)).close()
    assert host.run("stat -c '%a %U' /etc/postgresql/15/main/server.key") == "600 postgres"


def only_our_key_opens_the_host(ssh: SshSpec, host: Booted, scratch: Path) -> None:
    assert ask(ssh, "id -un; cat ~/state").split() == ["pgdyno", "ready"]
    # only root can read the input of the set-up
    for name in ("role.sql", "settings.conf", "host.env"):
        with pytest.raises(RemoteError, match="Permission denied"):
            ask(ssh, f"cat /etc/pgdyno/{name}")
    with pytest.raises(RemoteError, match="rejects the keys of root"):
        ask(ssh.model_copy(update={"user": "root"}), "true")
    assert host.run("passwd --status pgdyno").split()[1] == "L"
    assert {"passwordauthentication no", "permitrootlogin no"} <= set(host.run("sshd -T").splitlines())
    # pgdyno does not talk to a host with another key
    known = scratch / "known"
    known.write_text(f"{ssh.host} {new_key('another host')[1]}\n")
    with pytest.raises(RemoteError, match="which is not the one in"):
        ask(ssh.model_copy(update={"known_hosts": str(known)}), "true")


def another_run_changes_nothing(host: Booted) -> None:
    """Running setup.sh again changes nothing."""
    look = """
        findmnt -n -o TARGET,UUID,OPTIONS -t ext4,xfs
        cat /etc/fstab /etc/sysctl.d/90-pgdyno.conf /etc/postgresql-common/createcluster.d/*
        find /etc/postgresql -type f -exec stat -c '%a %U %n' {} + -exec sha256sum {} +
        head -3 /srv/pgdyno/data/postgres/main/postmaster.pid
        runuser -u postgres -- psql -XAtc 'SELECT rolname, rolpassword FROM pg_authid'
    """
    before = host.run(look)
    host.run("bash /etc/pgdyno/setup.sh")
    assert host.run(look) == before
    assert host.run("cat /home/pgdyno/state") == "ready"


def it_ends_itself_when_its_tag_says_so(machine: Machine, host: Booted, hosts: BootedHosts) -> None:
    machine.tags["pgdyno:expires"] = "2001-01-01T00:00:00Z"
    hosts.tagged(machine)
    # as after the quarter of an hour, after which it checks again
    host.run("systemctl restart pgdyno-expiry")
    assert host.has_ended()


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        ("no volume", r"volumes\n  there is no volume /dev/sdg after 2 s"),
        ("bad option", r"volumes(\n  .*)*\n  mount: /srv/pgdyno/data: .*bad option"),
        ("no network", r"packages of the system(\n  .*)*\n  E: Failed to fetch .*Service Unavailable"),
        ("no such version", r"packages of PostgreSQL(\n  .*)*\n  E: Unable to locate package postgresql-14"),
        ("unknown key", r"packages of PostgreSQL(\n  .*)*\n  .*signatures couldn't be verified"),
        ("bad setting", r"the server(\n  .*)*unrecognized configuration parameter .no_such"),
    ],
)
def test_failed_set_ups_are_told(amazon: Simulator, hosts: BootedHosts, scratch: Path, trouble: str, said: str) -> None:
    more = {
        "bad option": {"data": '{ size = "1GB", mount_options = ["nosuch=1"] }'},
        "no such version": {"version": '"14"', "huge_pages": "false"},
        "bad setting": {"parameters": '{ no_such = "1" }', "huge_pages": "false", "packages": '"distribution"'},
    }
    hosts.prepare["etc/systemd/system.conf.d/patience.conf"] = "[Manager]\nDefaultEnvironment=VOLUME_WITHIN_S=2\n"
    if trouble == "no volume":
        hosts.absent.add("/dev/sdg")
    if trouble == "no network":
        hosts.mirror.barred |= {"deb.debian.org"}
    with pgdg.pgdg(hosts, scratch, known=trouble != "unknown key"):
        rented = rental(scratch, **more.get(trouble, {}))
        with pytest.raises(TargetError) as caught:
            rented.up()
    assert re.search("target ec2: the host [0-9.]+ could not be set up: " + said, caught.value.message)
    assert rented.remove_all() == []
    assert amazon.left() == []


def test_debians_own_packages(amazon: Simulator, hosts: BootedHosts, scratch: Path) -> None:
    """A host with one volume, unencrypted, at other ports, under another name."""
    other = {"packages": '"distribution"', "tls": "false", "port": "6000", "ssh_port": "2222", "login": '"somebody"'}
    rented = rental(scratch, **other, huge_pages="false", wal='{ size = "1GB" }')
    rented.up()
    (host,) = hosts.known.values()
    with psycopg.connect(rented.connection("ec2").dsn) as connection:
        assert connection.info.port == 6000
    assert host.run("apt-cache policy postgresql-15 | grep -c pgdg", check=False) == "0"
    assert rented.connection("ec2").ssh is not None
    assert rented.remove_all() == []
    assert amazon.left() == []
