"""EC2 hosts from creation to removal: requests, set-up of a host by its user data, and errors."""

import base64
import os
import re
import subprocess
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path

import pytest

from pgdyno.plan import load_plan
from pgdyno.remote import RemoteError
from pgdyno.targets.aws.boto3_clients import CapacityError, Cloud, NotThereError
from pgdyno.targets.aws.hosts import ec2 as host_of_ec2
from pgdyno.targets.aws.hosts.ec2 import wait_until_set_up
from pgdyno.targets.aws.hosts.schema import Ec2Target
from pgdyno.targets.aws.hosts.user_data import Host, _config, new_nonce, server
from pgdyno.targets.aws.inventory import Kind
from pgdyno.targets.aws.observe.cloudwatch import asking_of_host, cloudwatch_figures, host
from pgdyno.targets.aws.observe.reports import ask_until_complete
from pgdyno.targets.rented.packaged_server import verifier
from pgdyno.targets.rented.provider import Wanted
from pgdyno.targets.rented.rental import SECOND_US, Span
from pgdyno.targets.rented.rental_journal import stamp
from tests.aws.account import CERTIFICATE, PAUSES, SAID, Account, kill_at
from tests.aws.ec2 import CONSOLE_LATE_S, CONSOLE_POSTED_S, Machine
from tests.aws.plans import HERE, ec2, generator, rds, write_plan
from tests.aws.simulator import REGION, Fault
from tests.present import present

VOLUMES = {
    "data": '{ size = "200GB", iops = 6000, throughput = 500, file_system = "xfs", mount_options = ["noatime"] }',
    "wal": '{ size = "50GB", type = "io2", iops = 40000 }',
}
OURS = ec2(instance=f'"{HERE}"')


def test_a_host_comes_up_as_asked_and_goes_without_a_trace(amazon: Account, tmp_path: Path) -> None:
    more = {"huge_pages": "true", "zones": '["eu-central-1b"]', "initdb": '["-k", "a b"]', "kms_key": '"alias/mine"'}
    parameters = """{ shared_buffers = "8GB", search_path = "a'b\\\\c" }"""
    rented = amazon.hold(ec2(**VOLUMES, parameters=parameters, **more))
    (machine,) = amazon.machines.all.values()
    assert (machine.zone, machine.asked["ImageId"]) == ("eu-central-1b", "ami-12arm")
    assert [
        (each["VolumeSize"], each["VolumeType"], each.get("Iops"), each.get("Throughput"))
        for each in machine.volumes.values()
    ] == [(10, "gp3", None, None), (200, "gp3", 6000, 500), (50, "io2", 40000, None)]
    assert all(each["DeleteOnTermination"] for each in machine.volumes.values())
    assert {(each["Encrypted"], each["KmsKeyId"]) for each in machine.volumes.values()} == {(True, "alias/mine")}
    assert machine.asked["NetworkInterfaces"][0]["DeleteOnTermination"]
    assert machine.asked["InstanceInitiatedShutdownBehavior"] == "terminate"
    assert machine.asked["MetadataOptions"]["InstanceMetadataTags"] == "enabled"
    # figures by the minute are asked for with the host
    assert machine.asked["Monitoring"] == {"Enabled": True}
    told = machine.files
    assert "shared_buffers = '8GB'\nsearch_path = 'a''b\\\\c'\n" in told["/etc/pgdyno/settings.conf"]
    assert "huge_pages = 'on'\n" in told["/etc/pgdyno/settings.conf"]
    assert told["/etc/pgdyno/expires"].strip() == stamp(rented.journal.expires)
    source = 'source "$0"; printf "%s|" "$DATA_DEVICE" "$WAL_OPTIONS" "$HUGE_PAGES" "${INITDB[@]}"'
    (tmp_path / "host.env").write_text(told["/etc/pgdyno/host.env"])
    said = subprocess.run(["bash", "-uc", source, tmp_path / "host.env"], capture_output=True, text=True, check=True)
    assert said.stdout == "/dev/sdf|noatime|yes|-k|a b|"
    # keys of both sides, and the password only as the server keeps it
    keys = rented.journal.keys
    assert {each.stat().st_mode & 0o077 for each in keys.iterdir() if each.name != "known_hosts"} == {0}
    password = rented.journal.passwords.read_text().strip().rpartition(":")[2]
    sent = base64.b64decode(machine.asked["UserData"]).decode()
    assert password not in sent
    assert not re.search("PRIVATE|BEGIN [A-Z]", sent)
    # the host has made its own, and is known by what its console shows
    assert f"{machine.address} ssh-ed25519 {'A' * 68}\n" == (keys / "known_hosts").read_text()
    assert (keys / "ec2.crt").read_text() == CERTIFICATE
    connection = rented.connection("ec2")
    assert "sslmode=verify-ca" in connection.dsn
    assert (present(connection.ssh).host, present(connection.ssh).user) == (machine.address, "pgdyno")
    # opened to this machine and to its own members
    *_, opened = amazon.asked("ec2:AuthorizeSecurityGroupIngress")
    assert [(each.get("FromPort"), each.get("IpRanges")) for each in opened["IpPermissions"]] == [
        (5432, [{"CidrIp": "203.0.113.7/32"}]),
        (22, [{"CidrIp": "203.0.113.7/32"}]),
        (None, None),
    ]
    # what is put off is put off for the host, too
    until = datetime.now(UTC) + timedelta(hours=9)
    rented.prolong(until)
    assert machine.tags["pgdyno:expires"] == stamp(until)
    assert rented.remove_all() == []
    assert list((amazon.home / "aws").iterdir()) == []


def test_cloudwatch_tells_of_a_host_and_of_each_of_its_volumes(amazon: Account) -> None:
    # the first type has no capacity: it is the second request that made the host
    amazon.faults = [Fault("RunInstances", "InsufficientInstanceCapacity")]
    rented = amazon.hold(ec2(**VOLUMES, zones='["eu-central-1a", "eu-central-1b"]'))
    cloud = rented.clouds[REGION]
    assert len(rented.tokens("ec2")) == 2
    subjects = host(cloud, rented.tokens("ec2"))
    at_us = 1_763_769_600 * SECOND_US
    span = Span(at_us, at_us + 120 * SECOND_US)
    found = cloudwatch_figures(cloud, subjects, span)
    assert found.complete
    assert not found.gaps
    minute = {
        (each.metric, dict(each.labels).get("volume")): each.value
        for each in found.figures
        if each.t_us == at_us + 60 * SECOND_US
    }
    assert minute["cpu", None] == 0.25
    assert (minute["reads", None], minute["writes", None]) == (10, 200)
    assert (minute["received", None], minute["sent", None]) == (1e5, 2e5)
    for volume in ("root", "data", "wal"):
        assert minute["volume_writes", volume] == 100
        # 0.15 writes in flight, 100 a second
        assert minute["volume_write_latency", volume] == pytest.approx(1.5)
        assert ("volume_read_latency", volume) not in minute
        assert minute["volume_iops_exceeded", volume] == 1
    # a host is looked up once, however often its figures are asked for
    amazon.telling.late, looks = 3, amazon.calls.count("ec2:DescribeInstances")
    asks = amazon.calls.count("cloudwatch:GetMetricData")
    ask = asking_of_host(cloud, rented.tokens("ec2"), span)
    assert ask_until_complete(ask, 60.0, lambda: None).figures == found.figures
    assert amazon.calls.count("cloudwatch:GetMetricData") > asks + 1
    assert amazon.calls.count("ec2:DescribeInstances") == looks + 1
    # one that has ended itself is no more of the rental
    (machine,) = amazon.machines.all.values()
    amazon.machines.shut_down(machine)
    assert {each.kind for each in rented.existing_resources()} == {Kind.SECURITY_GROUP}
    rented.remove_all()
    with pytest.raises(NotThereError, match="the instance no longer exists"):
        host(cloud, rented.tokens("ec2"))


def test_servers_and_spot_generators_are_placed_close_together(amazon: Account) -> None:
    placed = generator(spot="true") + '[cloud]\nplacement = "cluster"\n'
    rented = amazon.up(OURS, placed)
    present(amazon.standing(rented)).journal.release()
    # a one-time request ends with its instance; the server is never on one
    one_time = {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"}
    assert [each.asked.get("InstanceMarketOptions") for each in amazon.machines.all.values()] == [
        None,
        {"MarketType": "spot", "SpotOptions": one_time},
    ]
    (group,) = amazon.machines.placements
    assert [each.asked["Placement"] for each in amazon.machines.all.values()] == [{"GroupName": group}] * 2
    until = datetime.now(UTC) + timedelta(hours=9)
    rented.prolong(until)
    assert {"Key": "pgdyno:expires", "Value": stamp(until)} in amazon.machines.placements[group]["Tags"]
    # found by its tag, and after its hosts
    assert Kind.PLACEMENT_GROUP in {each.kind for each in amazon.reaper("another home").find(Wanted())}
    assert rented.remove_all() == []
    assert amazon.left() == []
    # found by its name alone, and not found without the permission, which keeps nothing else from being removed
    rented = amazon.rental(OURS, placed)
    rented.journal.release()
    kill_at(amazon, "ec2:CreatePlacementGroup", rented.up)
    amazon.denied = {"ec2:DescribePlacementGroups"}
    assert amazon.reaper().find(Wanted()) == []
    amazon.denied = set()
    amazon.reap()


def test_without_capacity_the_next_zone_and_type_are_tried(amazon: Account) -> None:
    def is_taken(asked: dict[str, object]) -> bool:
        return "m7g.large" in str(asked.get("InstanceType", asked.get("DBInstanceClass")))

    amazon.faults = [
        # one of the two says so as a fault of the service, which boto3 would ask for ten times
        Fault("RunInstances", "InsufficientInstanceCapacity", status=500, when=is_taken),
        Fault("RunInstances", "Unsupported", "not supported in your requested Availability Zone", when=is_taken),
        Fault("CreateDBInstance", "InsufficientDBInstanceCapacity", times=9, when=is_taken),
    ]
    zones = '["eu-central-1a", "eu-central-1b"]'
    rented = amazon.hold(ec2(zones=zones, instead='["m8g.large"]'), rds(zones=zones, instead='["db.m8g.large"]'))
    # both come up at the same time
    assert sorted(each for each in SAID if "no capacity" in each) == [
        "no capacity for db.m7g.large in eu-central-1a (InsufficientDBInstanceCapacity): trying the next one",
        "no capacity for db.m7g.large in eu-central-1b (InsufficientDBInstanceCapacity): trying the next one",
        "no capacity for m7g.large in eu-central-1a (InsufficientInstanceCapacity): trying the next one",
        "no capacity for m7g.large in eu-central-1b (Unsupported): trying the next one",
    ]
    assert (amazon.calls.count("ec2:RunInstances"), PAUSES) == (3, [])
    instances = {name: each["instance"] for name, each in rented.journal.ready.items()}
    assert instances == {"ec2": "m8g.large", "rds": "db.m8g.large"}
    assert rented.remove_all() == []
    amazon.faults = [
        Fault("RunInstances", "InsufficientInstanceCapacity", status=500, times=99),
        Fault("CreateDBInstance", "InsufficientDBInstanceCapacity", times=9),
    ]
    for target in (ec2(), rds()):
        assert isinstance(amazon.failed(target), CapacityError)
    # a fault that passes is still repeated
    amazon.faults = [Fault("DescribeVpcs", "InternalError", status=500, times=2)]
    assert list(Cloud(REGION).list_elements("ec2", "describe_vpcs", "Vpcs"))
    assert len(PAUSES) == 2


def test_an_instance_that_is_refused_or_ends_while_it_starts_says_why(amazon: Account) -> None:
    def end(action: str, _number: int) -> None:
        if action == "ec2:RunInstances":
            machine = list(amazon.machines.all.values())[-1]
            machine.state, machine.reason = "terminated", "Client.VolumeLimitExceeded"

    amazon.on_call = end
    assert "is terminated: Client.VolumeLimitExceeded" in amazon.failed(ec2()).message
    amazon.faults = [Fault("RunInstances", "InvalidParameterValue", "the architecture")]
    assert "Amazon refuses ec2:RunInstances" in amazon.failed(ec2()).message


def test_an_answer_that_is_lost_makes_nothing_twice(amazon: Account) -> None:
    amazon.faults = [
        Fault("RunInstances", "RequestLimitExceeded", status=503),
        Fault("RunInstances", "InternalError", status=500, done=True),
        # instances do not find their group yet
        Fault("RunInstances", "InvalidGroup.NotFound", "The security group 'sg-1' does not exist", times=3),
        Fault("DescribeInstances", "InvalidInstanceID.NotFound", when=lambda asked: "InstanceIds" in asked),
    ]
    rented = amazon.hold(ec2())
    assert amazon.calls.count("ec2:RunInstances") == 6
    assert len(amazon.machines.all) == 1
    assert rented.remove_all() == []


def test_servers_come_up_side_by_side_and_one_failure_ends_all(amazon: Account) -> None:
    two = ec2() + ec2(instance='"m8g.large"').replace("target.ec2", "target.other")
    rented = amazon.hold(two)
    asked = [each for each in amazon.calls if each in ("ec2:CreateSecurityGroup", "ec2:DescribeInstances")]
    # neither waits for the other
    assert asked.count("ec2:CreateSecurityGroup") == 2
    assert rented.journal.ready.keys() == {"ec2", "other"}
    assert rented.remove_all() == []

    def is_first(parameters: dict[str, object]) -> bool:
        return parameters["InstanceType"] == "m7g.large"

    amazon.faults = [Fault("RunInstances", "VcpuLimitExceeded", when=is_first)]
    assert "target ec2: a quota of the account is used up" in amazon.failed(two).message


def test_a_password_as_the_server_keeps_it() -> None:
    # RFC 7677's example
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    assert verifier("pencil", salt) == (
        "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$"
        "WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
    )


def test_a_host_ends_itself_at_the_expiry_of_its_tag(tmp_path: Path) -> None:
    text = files("pgdyno.targets.aws").joinpath("expiry.sh").read_text()
    (tmp_path / "expiry.sh").write_text(text.replace("/etc/pgdyno/expires", str(tmp_path / "expires")))
    (tmp_path / "expires").write_text("2001-01-01T00:00:00Z\n")
    later = (datetime.now(UTC) + timedelta(seconds=500)).strftime("%Y-%m-%dT%H:%M:%SZ")
    did = tmp_path / "did"
    for name, body in {
        # the token first, then the tag, which the second look finds in the past
        "curl": f'case "$*" in *token*PUT*|*PUT*) echo T;; *) cat {tmp_path}/tag;; esac',
        "sleep": f'echo "slept $1" >> {did}; echo 2001-01-01T00:00:00Z > {tmp_path}/tag',
        "systemctl": f'echo "systemctl $*" >> {did}',
    }.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{body}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "tag").write_text(f"{later}\n")
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    subprocess.run(["bash", tmp_path / "expiry.sh"], env=path, check=True, timeout=60)
    slept, off = did.read_text().splitlines()
    assert 0 < int(slept.split()[1]) <= 500
    assert off == "systemctl poweroff"


def test_the_console_is_late_and_on_older_types_later(amazon: Account) -> None:
    for instance, latest in (("m7g.large", True), ("t2.small", False)):
        rented = amazon.rental(ec2(instance=f'"{instance}"', tls="false"))
        begun_s = amazon.clock.now_s
        rented.up()
        *_, asked = amazon.asked("ec2:GetConsoleOutput")
        assert asked.get("Latest", False) == latest
        assert amazon.clock.now_s - begun_s > (CONSOLE_LATE_S if latest else CONSOLE_POSTED_S)
        assert rented.remove_all() == []


def test_a_host_without_a_printed_key_is_left(amazon: Account) -> None:
    printed: list[str] = []

    def console(machine: Machine) -> str:
        return printed[-1].replace("NONCE", machine.console("").split()[-1])

    amazon.machines.console = console
    for text, shown in (
        # of an earlier boot or another host, and one that a message of the kernel has cut
        (f"pgdyno host key {'0' * 32} ssh-ed25519 {'A' * 68}\r\n", "pgdyno host key 000"),
        ("pgdyno host key NONCE ssh-ed25519 AAAA[  9.1] random: done\r\nAAAA\r\n", "random: done"),
        ("", "Amazon shows no console output"),
    ):
        printed.append(text)
        message = amazon.failed(ec2()).message
        assert "has not printed its SSH key on its console" in message
        assert shown in message


@pytest.mark.long
def test_a_host_that_cannot_be_set_up(amazon: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_of_ec2, "wait_until_set_up", wait_until_set_up)
    said = iter(["starting", "working: packages of the system", "failed: volumes\nSetting up\nno volume /dev/sdf\n"])
    monkeypatch.setattr(host_of_ec2, "ask", lambda *_: next(said))
    assert "could not be set up: volumes\n  Setting up\n  no volume /dev/sdf" in amazon.failed(ec2()).message

    def unreachable(*_: object) -> str:
        raise RemoteError("no route to host", passing=True)

    monkeypatch.setattr(host_of_ec2, "ask", unreachable)
    monkeypatch.setattr(host_of_ec2, "REACHED_WITHIN_S", 0.0)
    monkeypatch.setenv("PGDYNO_ADDRESS", "203.0.113.7")
    assert "so the route is missing" in amazon.failed(ec2()).message
    monkeypatch.setenv("PGDYNO_ADDRESS", "203.0.113.8")
    said_of_group = "the security group allows 203.0.113.7/32, and this machine is 203.0.113.8/32"
    assert said_of_group in amazon.failed(ec2()).message


# setup.sh on Amazon Linux: its commands are recorded, because no image of Amazon Linux boots here
AMAZON_LINUX = {"system": '"amazon-linux-2023"', "packages": '"distribution"', "version": '"16"'}
RECORD = 'echo "$(basename "$0") $*" >> "$DID"'
PROGRAMS = {
    "dnf": RECORD,
    "systemctl": f'{RECORD}; [ "$*" != "-q is-active postgresql" ]',
    "chown": RECORD,
    "sysctl": RECORD,
    "getent": 'echo "pgdyno:x:1000:1000::$HOME:/bin/bash"',
    # none of these accounts exists on this machine
    "install": (
        'words=(); while [ $# -gt 0 ]; do case $1 in -o|-g) shift;; *) words+=("$1");; esac; shift; done\n'
        'exec /usr/bin/install "${words[@]}"'
    ),
    "runuser": (
        f"{RECORD}; shift 3\n"
        'case $1 in */initdb) mkdir -p "$3"; echo "# as initdb has made it" > "$3/postgresql.conf";;\n'
        "*/postgres) echo 0;; psql) cat > /dev/null;; esac"
    ),
}


def test_the_server_comes_from_amazons_packages(tmp_path: Path) -> None:
    spec = load_plan(
        write_plan(tmp_path / "plan", ec2(**AMAZON_LINUX, port="6000", initdb='["-k"]', huge_pages="true"))
    ).plan.target["ec2"]
    assert isinstance(spec, Ec2Target)
    nonce = new_nonce()
    host = Host(nonce, "pgdyno", 22, "ssh-ed25519 AAAA", "2030-01-01T00:00:00Z")
    for each in _config(host, server(spec, "secret"))["write_files"]:
        file = tmp_path / each["path"].lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(each["content"])
    for folder in ("bin", "dev", "proc/sys/vm", "etc/sysctl.d", "var/log", "home"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    (tmp_path / "etc/ssh/ssh_host_ed25519_key.pub").write_text("ssh-ed25519 AAAAkey root@host\n")
    (tmp_path / "proc/sys/vm/nr_hugepages").write_text("0\n")
    for name, body in PROGRAMS.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/bash\n{body}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    text = files("pgdyno.targets.aws").joinpath("setup.sh").read_text()
    for folder in ("/etc/", "/var/", "/proc/", "/dev/console"):
        text = text.replace(folder, f"{tmp_path}{folder}")
    environment = {
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "HOME": str(tmp_path / "home"),
        "DID": str(tmp_path / "did"),
    }
    for _ in range(2):
        done = subprocess.run(["bash", "-c", text], env=environment, capture_output=True, text=True, check=False)
        log = (tmp_path / "var/log/pgdyno-setup.log").read_text()
        assert (tmp_path / "home/state").read_text() == "ready\n", done.stderr + log
    did = (tmp_path / "did").read_text().splitlines()
    data = tmp_path / "var/lib/pgsql/data"
    assert "dnf -q -y --setopt=install_weak_deps=False install postgresql16-server" in did
    assert not [each for each in did if "apt" in each]
    # the second time there is a cluster
    assert [each for each in did if "initdb" in each] == [
        f"runuser -u postgres -- /usr/bin/initdb -D {data} --encoding=UTF8 --locale=C.UTF-8 -k"
    ]
    assert did.count("systemctl start postgresql") == 2
    unit = tmp_path / "etc/systemd/system/postgresql.service.d/pgdyno.conf"
    assert unit.read_text() == f"[Service]\nEnvironment=PGDATA={data}\n"
    assert (data / "postgresql.conf").read_text().splitlines()[1:] == ["port = 6000", "include_dir = 'conf.d'"]
    assert "ssl_key_file = 'server.key'\n" in (data / "conf.d/pgdyno.conf").read_text()
    assert (data / "server.key").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "home/server.crt").read_text() == (data / "server.crt").read_text()
    assert (tmp_path / "dev/console").read_text().count(f"pgdyno host key {nonce} ssh-ed25519 AAAAkey\n") == 6


def test_its_image_is_asked_for(amazon: Account) -> None:
    amazon.rent(ec2(**AMAZON_LINUX))
    (machine,) = amazon.machines.all.values()
    assert machine.asked["ImageId"] == "ami-al2023arm"
